"""The teeny command, and what commands of other packages share with it."""

from teeny_cli.files import require_writable as require_writable
from teeny_cli.files import write_file as write_file
from teeny_cli.help import examples as examples
