"""What can go wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._runs import Run


class FormatError(ValueError):
    """A file is damaged, or of a later format than this package reads."""


class NoSuchRun(LookupError):
    """No run has this path, name or tag."""


class ProgramError(RuntimeError):
    """The program `quaver` ended with another status than 0.

    `status` is its exit status (1: a condition of `--fail-if` holds), `message` its last line of standard error, and `run`
    the run that it left all the same, if any.
    """

    def __init__(self, status: int, message: str, run: Run | None = None) -> None:
        super().__init__(f"quaver ended with status {status}: {message}")
        self.status = status
        self.message = message
        self.run = run
