"""The teeny command."""
