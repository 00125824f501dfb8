"""Errors a user can cause or mend: each says what is wrong, where, and what to do."""


class HarnessError(Exception):
    """A trouble that the user can mend; shown as one block without a traceback.

    `what` is one sentence, `where` a file:line, a config path or a log file, `remedy` what to do next; `detail` is
    further lines of evidence, such as the last ones of a log.
    `exit_code` is 2 while nothing has been started or measured, 1 afterwards (contract.md).
    """

    exit_code = 2

    def __init__(self, what: str, *, where: str = "", remedy: str = "", detail: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.remedy = remedy
        self.detail = detail

    def block(self) -> str:
        """The error as lines for stderr: what, the evidence, where, what to do."""
        lines = [f"error: {self.what}"]
        if self.detail:
            lines.append(self.detail)
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.remedy:
            lines.append(f"  to do: {self.remedy}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return " | ".join(part for part in (self.what, self.where, self.remedy) if part)


class ConfigError(HarnessError):
    """A config file, or a value in it, that cannot be used. `where` is file:line and the config path."""


class TraceError(HarnessError):
    """A trace that cannot be read as declared. `where` is file:line; `what` names the field and its value."""


class StackError(HarnessError):
    """A service under test that did not start, or died. `where` is its log, `detail` the last lines of it."""

    exit_code = 1


class CollectError(HarnessError):
    """Something a server said that this version does not know how to read."""

    exit_code = 1


class RunFolderError(HarnessError):
    """A run folder that is missing, incomplete, or of a format this version cannot read."""


class IncomparableError(HarnessError):
    """Two runs that must not be compared: what differs, key by key, and how to allow it (exit 2; in `gate` 4)."""
