// SPDX-License-Identifier: Apache-2.0
// What can go wrong, by name. A command or a cell that fails is no error but a result; an error is about Cay, the
// way to it, or what was asked of it.

export interface ErrorInfo {
  status?: number;
  code?: string;
  requestId?: string | null;
  details?: Record<string, unknown>;
  retryAfter?: number | null;
  cause?: unknown;
}

/** The base of them all. `message` says what happened and what to do. */
export class CayError extends Error {
  /** The HTTP status; 0 when no answer came. */
  readonly status: number;
  /** The server's `error_code`, such as `NOT_FOUND`. */
  readonly code: string;
  /** Under which the server's log has it. */
  readonly requestId: string | null;
  readonly details: Record<string, unknown>;
  /** Whether the same call may work a little later. */
  readonly retryable: boolean;
  /** Seconds after which the server would like to be asked again; null when it said nothing of that. */
  readonly retryAfter: number | null;

  constructor(message: string, info: ErrorInfo = {}) {
    super(message, info.cause === undefined ? undefined : { cause: info.cause });
    this.name = new.target.name;
    this.status = info.status ?? 0;
    this.code = info.code ?? 'UNKNOWN';
    this.requestId = info.requestId ?? null;
    this.details = info.details ?? {};
    this.retryAfter = info.retryAfter ?? null;
    this.retryable = RETRYABLE.has(this.code);
  }
}

const RETRYABLE = new Set([
  'UNAVAILABLE', 'RATE_LIMITED', 'STORE_UNAVAILABLE', 'REQUEST_IN_PROGRESS', 'REQUEST_TIMEOUT', 'CONNECTION_FAILED',
]);

/** 400: the message names what to mend. */
export class InvalidRequestError extends CayError {}
/** 401: no token, or not one of the server's. */
export class UnauthorizedError extends CayError {}
/** 402: the sandbox's budget for models is used up. */
export class BudgetExceededError extends CayError {}
/** 403: the token may not, or the sandbox's own system does not allow it. */
export class ForbiddenError extends CayError {}
/** 403: something has to be deleted first. */
export class QuotaExceededError extends CayError {}

/** 404 of any kind. */
export class NotFoundError extends CayError {}
export class SandboxNotFoundError extends NotFoundError {}
export class FileNotFoundError extends NotFoundError {}
export class SessionNotFoundError extends NotFoundError {}
export class ProcessNotFoundError extends NotFoundError {}
export class ContextNotFoundError extends NotFoundError {}
export class SnapshotNotFoundError extends NotFoundError {}
export class BackupNotFoundError extends NotFoundError {}

/** 409: it is there already, or not in a state for this. */
export class ConflictError extends CayError {}
export class FileExistsError extends ConflictError {}
/** The interpreter of the context has ended, with all it knew. */
export class ContextDeadError extends ConflictError {}
/** It was begun, and nobody knows whether it was done: look before you ask again. */
export class OutcomeUnknownError extends ConflictError {}
/** 410: the command ended the shell of its session; the next one gets a new shell. `result` is the command's. */
export class SessionTerminatedError extends CayError {
  get exitCode(): number {
    return Number(this.details['exitCode'] ?? -1);
  }
  get result(): Record<string, unknown> {
    return this.details;
  }
}
/** 400: a file is wanted, and this is a directory. */
export class IsDirectoryError extends InvalidRequestError {}
/** 400: a directory is wanted, and this is none. */
export class NotDirectoryError extends InvalidRequestError {}
/** 412: the file is not what `ifMatch` says. */
export class PreconditionFailedError extends CayError {}
/** 413 and its kin: send less. */
export class TooLargeError extends CayError {}
/** 429 */
export class RateLimitedError extends CayError {}
/** Git failed; `details.stderr` has its words where there are any. */
export class GitError extends CayError {}
/** 501: this server, machine or image cannot do it. */
export class NotSupportedError extends CayError {}
/** 502: nobody listens there, or it speaks no HTTP. */
export class BadGatewayError extends CayError {}
/** 503: not now. It was tried several times already. */
export class UnavailableError extends CayError {}
/** 507: the sandbox's disk or memory is too small. */
export class NoSpaceError extends CayError {}
/** 500: the server's log says more, under `requestId`. */
export class InternalError extends CayError {}

/** Something did not happen in the time that the caller gave it. */
export class TimeoutError extends CayError {}
/** No answer: the server could not be reached, or the connection broke and it would not be safe to ask again. */
export class ConnectionError extends CayError {}
/** A stream broke and could not be gone on with. What came until then is not all of it. */
export class StreamInterruptedError extends ConnectionError {}
/** What was waited for did not come in time. */
export class ProcessReadyTimeoutError extends TimeoutError {}
/** The process ended before what was waited for came; `details` has how. */
export class ProcessExitedBeforeReadyError extends CayError {}

type ErrorClass = new (message: string, info?: ErrorInfo) => CayError;

const BY_CODE: Readonly<Record<string, ErrorClass>> = {
  IS_DIRECTORY: IsDirectoryError,
  NOT_DIRECTORY: NotDirectoryError,
  BUDGET_EXCEEDED: BudgetExceededError,
  QUOTA_EXCEEDED: QuotaExceededError,
  GIT_AUTH_FAILED: GitError,
  GIT_NETWORK_DENIED: GitError,
  GIT_REPO_NOT_FOUND: GitError,
  GIT_BRANCH_NOT_FOUND: GitError,
  GIT_OPERATION_FAILED: GitError,
  GIT_CLONE_FAILED: GitError,
  FILE_EXISTS: FileExistsError,
  CONTEXT_DEAD: ContextDeadError,
  OUTCOME_UNKNOWN: OutcomeUnknownError,
  SESSION_TERMINATED: SessionTerminatedError,
  EXECUTION_TIMEOUT: TimeoutError,
};

const BY_STATUS: Readonly<Record<number, ErrorClass>> = {
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
};

// What a path that is not there was the path of.
const MISSING: ReadonlyArray<readonly [RegExp, ErrorClass]> = [
  [/^\/sandbox\/[^/]+$/, SandboxNotFoundError],
  [/^\/sandbox\/[^/]+\/(files|archive|watch)/, FileNotFoundError],
  [/^\/sandbox\/[^/]+\/(sessions|exec)/, SessionNotFoundError],
  [/^\/sandbox\/[^/]+\/processes/, ProcessNotFoundError],
  [/^\/sandbox\/[^/]+\/(contexts|code)/, ContextNotFoundError],
  [/^\/sandbox\/[^/]+\/(snapshots|rollback|fork)/, SnapshotNotFoundError],
  [/^\/sandbox\/[^/]+\/(backups|restore)|^\/backups/, BackupNotFoundError],
];

function classOf(status: number, code: string, details: Record<string, unknown>, path: string): ErrorClass {
  if (code === 'NOT_FOUND' && details['missing'] === 'sandbox') return SandboxNotFoundError;
  if (code === 'NOT_FOUND') return MISSING.find(([pattern]) => pattern.test(path))?.[1] ?? NotFoundError;
  return BY_CODE[code] ?? BY_STATUS[status] ?? CayError;
}

interface ErrorBody {
  error?: unknown;
  error_code?: unknown;
  request_id?: unknown;
  details?: unknown;
}

function readBody(text: string): ErrorBody {
  try {
    const body: unknown = JSON.parse(text);
    return typeof body === 'object' && body !== null ? body : {};
  } catch {
    return {}; // a proxy's page, perhaps
  }
}

/** The error that an answer tells of. `path` is the one that was asked for, without its query. */
export async function errorOf(response: Response, path: string): Promise<CayError> {
  const text = await response.text();
  const body = readBody(text);
  const details = typeof body.details === 'object' && body.details !== null ? body.details as Record<string, unknown> : {};
  const code = typeof body.error_code === 'string' ? body.error_code : response.status === 503 ? 'UNAVAILABLE' : `HTTP_${response.status}`;
  const message = typeof body.error === 'string' ? body.error : `${response.status} ${response.statusText}: ${text.slice(0, 200)}`;
  const after = Number(response.headers.get('retry-after') ?? NaN);
  return new (classOf(response.status, code, details, path))(message, {
    status: response.status,
    code,
    requestId: typeof body.request_id === 'string' ? body.request_id : response.headers.get('x-request-id'),
    details,
    retryAfter: Number.isFinite(after) ? after : null,
  });
}
