"""Pictures of graphs and schedules as SVG, laid out without other programs."""

from teeny_compiler.draw.pictures import picture as picture
from teeny_compiler.draw.svg import svg as svg
