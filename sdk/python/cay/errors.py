# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, by name. A command or a cell that fails is no error but a result; an error is about Cay, the way
to it, or what was asked of it.

Where Python has an error of its own for it, ours is one of these, too: `except FileNotFoundError` catches a file that
is not in the sandbox."""

from __future__ import annotations

import builtins
import re
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Tuple, Type

if TYPE_CHECKING:
    from .types import ExecResult

# Without those that Python has by the same name, so that `import *` takes none of these away.
__all__ = [
    "BackupNotFoundError",
    "BadGatewayError",
    "BudgetExceededError",
    "CayError",
    "CommandFailedError",
    "ConflictError",
    "ContextDeadError",
    "ContextNotFoundError",
    "ForbiddenError",
    "GitError",
    "InternalError",
    "InvalidRequestError",
    "IsDirectoryError",
    "NoSpaceError",
    "NotDirectoryError",
    "NotFoundError",
    "NotSupportedError",
    "OutcomeUnknownError",
    "PreconditionFailedError",
    "ProcessExitedBeforeReadyError",
    "ProcessNotFoundError",
    "ProcessReadyTimeoutError",
    "QuotaExceededError",
    "RateLimitedError",
    "SandboxNotFoundError",
    "SessionNotFoundError",
    "SessionTerminatedError",
    "SnapshotNotFoundError",
    "StreamInterruptedError",
    "TooLargeError",
    "UnauthorizedError",
    "UnavailableError",
]

RETRYABLE = frozenset(
    [
        "UNAVAILABLE",
        "RATE_LIMITED",
        "STORE_UNAVAILABLE",
        "REQUEST_IN_PROGRESS",
        "REQUEST_TIMEOUT",
        "CONNECTION_FAILED",
    ]
)


class CayError(Exception):
    """The base of them all. The message says what happened and what to do."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        code: str = "UNKNOWN",
        request_id: Optional[str] = None,
        details: Optional[Dict[str, Any]] = None,
        retry_after: Optional[float] = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status  # the HTTP status; 0 when no answer came
        self.code = code  # the server's `error_code`, such as NOT_FOUND
        self.request_id = request_id  # under which the server's log has it
        self.details: Dict[str, Any] = details or {}
        self.retry_after = retry_after  # seconds, where the server said so

    @property
    def retryable(self) -> bool:
        """Whether the same call may work a little later."""
        return self.code in RETRYABLE

    def __str__(self) -> str:
        return self.message


class InvalidRequestError(CayError, ValueError):
    """400: the message names what to mend."""


class IsDirectoryError(InvalidRequestError, builtins.IsADirectoryError):
    """400: a file is wanted, and this is a directory."""


class NotDirectoryError(InvalidRequestError, builtins.NotADirectoryError):
    """400: a directory is wanted, and this is none."""


class UnauthorizedError(CayError):
    """401: no token, or not one of the server's."""


class BudgetExceededError(CayError):
    """402: the sandbox's budget for models is used up."""


class ForbiddenError(CayError, builtins.PermissionError):
    """403: the token may not, or the sandbox's own system does not allow it."""


class QuotaExceededError(CayError):
    """403: something has to be deleted first."""


class NotFoundError(CayError):
    """404 of any kind."""


class SandboxNotFoundError(NotFoundError):
    pass


class FileNotFoundError(NotFoundError, builtins.FileNotFoundError):
    pass


class SessionNotFoundError(NotFoundError):
    pass


class ProcessNotFoundError(NotFoundError):
    pass


class ContextNotFoundError(NotFoundError):
    pass


class SnapshotNotFoundError(NotFoundError):
    pass


class BackupNotFoundError(NotFoundError):
    pass


class ConflictError(CayError):
    """409: it is there already, or not in a state for this."""


class FileExistsError(ConflictError, builtins.FileExistsError):
    pass


class ContextDeadError(ConflictError):
    """The interpreter of the context has ended, with all it knew: restart it, or make another."""


class OutcomeUnknownError(ConflictError):
    """It was begun, and nobody knows whether it was done: look before you ask again."""


class SessionTerminatedError(CayError):
    """410: the command ended the shell of its session; the next one gets a new shell. `result` is the command's."""

    @property
    def result(self) -> ExecResult:
        from .types import ExecResult

        return ExecResult.read(self.details)

    @property
    def exit_code(self) -> int:
        return int(self.details.get("exitCode", -1))


class PreconditionFailedError(CayError):
    """412: the file is not what `if_match` says."""


class TooLargeError(CayError):
    """413 and its kin: send less."""


class RateLimitedError(CayError):
    """429: too many requests with this token."""


class GitError(CayError):
    """Git failed; `code` says how, and `details["stderr"]` has git's words where there are any."""


class NotSupportedError(CayError):
    """501: this server, machine or image cannot do it."""


class BadGatewayError(CayError):
    """502: nobody listens there, or it speaks no HTTP."""


class UnavailableError(CayError):
    """503: not now. It was tried several times already."""


class NoSpaceError(CayError):
    """507: the sandbox's disk or memory is too small."""


class InternalError(CayError):
    """500: the server's log says more, under `request_id`."""


class TimeoutError(CayError, builtins.TimeoutError):
    """Something did not happen in the time that it was given."""


class ProcessReadyTimeoutError(TimeoutError):
    """What was waited for did not come in time."""


class ProcessExitedBeforeReadyError(CayError):
    """The process ended before what was waited for came; `details` has how."""


class ConnectionError(CayError, builtins.ConnectionError):
    """No answer: the server could not be reached, or the connection broke and it would not be safe to ask again."""


class StreamInterruptedError(ConnectionError):
    """A stream broke and could not be gone on with. What came until then is not all of it."""


class CommandFailedError(CayError):
    """A command that was to succeed (`check=True`) did not. `result` has all of it."""

    def __init__(self, result: ExecResult) -> None:
        words = result.stderr.strip() or result.stdout.strip()
        how = f"exit code {result.exit_code}" + ("" if result.reason == "exit" else f", {result.reason}")
        super().__init__(f"{result.command!r} failed ({how})" + (f": {words[-500:]}" if words else ""))
        self.code = "COMMAND_FAILED"
        self.result = result


BY_CODE: Mapping[str, Type[CayError]] = {
    "IS_DIRECTORY": IsDirectoryError,
    "NOT_DIRECTORY": NotDirectoryError,
    "BUDGET_EXCEEDED": BudgetExceededError,
    "QUOTA_EXCEEDED": QuotaExceededError,
    "GIT_AUTH_FAILED": GitError,
    "GIT_NETWORK_DENIED": GitError,
    "GIT_REPO_NOT_FOUND": GitError,
    "GIT_BRANCH_NOT_FOUND": GitError,
    "GIT_OPERATION_FAILED": GitError,
    "GIT_CLONE_FAILED": GitError,
    "FILE_EXISTS": FileExistsError,
    "CONTEXT_DEAD": ContextDeadError,
    "OUTCOME_UNKNOWN": OutcomeUnknownError,
    "SESSION_TERMINATED": SessionTerminatedError,
    "EXECUTION_TIMEOUT": TimeoutError,
}

BY_STATUS: Mapping[int, Type[CayError]] = {
    400: InvalidRequestError,
    401: UnauthorizedError,
    402: BudgetExceededError,
    403: ForbiddenError,
    404: NotFoundError,
    408: TimeoutError,
    409: ConflictError,
    412: PreconditionFailedError,
    413: TooLargeError,
    414: TooLargeError,
    429: RateLimitedError,
    431: TooLargeError,
    500: InternalError,
    501: NotSupportedError,
    502: BadGatewayError,
    503: UnavailableError,
    504: TimeoutError,
    507: NoSpaceError,
}

# What a path that is not there was the path of.
MISSING: Tuple[Tuple[str, Type[CayError]], ...] = (
    (r"/sandbox/[^/]+$", SandboxNotFoundError),
    (r"/sandbox/[^/]+/(files|archive|watch)", FileNotFoundError),
    (r"/sandbox/[^/]+/(sessions|exec)", SessionNotFoundError),
    (r"/sandbox/[^/]+/processes", ProcessNotFoundError),
    (r"/sandbox/[^/]+/(contexts|code)", ContextNotFoundError),
    (r"/sandbox/[^/]+/(snapshots|rollback|fork)", SnapshotNotFoundError),
    (r"(/sandbox/[^/]+/(backups|restore)|/backups)", BackupNotFoundError),
)


def _class_of(status: int, code: str, message: str, details: Dict[str, Any], path: str) -> Type[CayError]:
    if code == "NOT_FOUND":
        if details.get("missing") == "sandbox" or message.startswith("there is no sandbox '"):
            return SandboxNotFoundError
        for pattern, missing in MISSING:
            if re.match(pattern, path):
                return missing
    return BY_CODE.get(code) or BY_STATUS.get(status) or CayError


def error_of(status: int, headers: Mapping[str, str], body: object, text: str, path: str) -> CayError:
    """The error that an answer tells of. `body` is its JSON, None where it has none; `path` was asked for."""
    fields: Dict[str, Any] = body if isinstance(body, dict) else {}
    details = fields.get("details")
    details = details if isinstance(details, dict) else {}
    code = str(fields.get("error_code") or ("UNAVAILABLE" if status == 503 else f"HTTP_{status}"))
    message = str(fields.get("error") or f"HTTP {status}: {text[:200]}")
    after = headers.get("retry-after", "")
    return _class_of(status, code, message, details, path)(
        message,
        status=status,
        code=code,
        request_id=fields.get("request_id") or headers.get("x-request-id"),
        details=details,
        retry_after=float(after) if after.isdigit() else None,
    )
