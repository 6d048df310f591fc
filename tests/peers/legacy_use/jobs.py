"""What the server answers about jobs."""

from __future__ import annotations

import time
import uuid
from typing import Any

from tests.peers.legacy_use.bodies import JobCreate
from tests.peers.legacy_use.rows import BLOCKING, TERMINAL, Job, Row, now
from tests.peers.legacy_use.targets import Answer, Targets

_NO_JOB: Answer = (404, {"detail": "Job not found"})


class Jobs(Targets):
    """The paths below ``targets/{id}/jobs/``."""

    def _create_job(self, query: dict[str, str], body: Any, target: str) -> Answer:
        given = JobCreate.model_validate(body)
        row = self.targets.get(target)
        if row is None:
            return 404, {"detail": "Target not found"}
        definition = self.definitions.get(given.api_name)
        if definition is None or definition["is_archived"]:
            return 400, {"detail": f"API definition '{given.api_name}' not found"}
        there = [s for s in self.sessions.values() if s["target_id"] == target and not s["is_archived"]]
        session: Row | None = (
            there[0] if there else self.new_session(f"Auto-created session for target {target[:8]}", row)
        )
        if not there and session is not None and session.container is None:
            session = None  # that it failed is told to nobody
        active = next(version for version in definition["versions"] if version["is_active"])
        data = {
            "id": str(uuid.uuid4()), "target_id": target, "session_id": session["id"] if session else None,
            "api_name": given.api_name, "parameters": given.parameters, "status": "pending", "result": None, "error": None,
            "created_at": now(), "updated_at": now(), "completed_at": None, "api_exchanges": [],
            "api_definition_version_id": active["id"],
        }  # fmt: skip
        job = self.jobs[data["id"]] = Job(data)
        view = self._job_view(job) | {"total_input_tokens": None, "total_output_tokens": None}
        data["status"] = "queued"
        job.log("system", "Job added to queue")
        return 200, view

    def _job_view(self, job: Job) -> dict[str, Any]:
        # A paused job's goes on although it has an end; so does that of one that has none yet.
        ended = job.completed if job.completed is not None and job.status != "paused" else time.monotonic()
        taken, given = job.tokens()
        return job.data | {
            "total_input_tokens": taken, "total_output_tokens": given, "duration_seconds": ended - job.created,
        }  # fmt: skip

    def _list_jobs(self, query: dict[str, str], body: Any, target: str) -> Answer:
        found = [job for job in self.jobs.values() if job.data["target_id"] == target]
        return 200, [self._job_view(job) for job in reversed(found)][: int(query.get("limit", 10))]

    def _job(self, target: str, job: str) -> Job | None:
        found = self.jobs.get(job)
        return found if found is not None and found.data["target_id"] == target else None

    def _get_job(self, query: dict[str, str], body: Any, target: str, job: str) -> Answer:
        found = self._job(target, job)
        return (200, self._job_view(found)) if found else _NO_JOB

    def _get_logs(self, query: dict[str, str], body: Any, target: str, job: str) -> Answer:
        found = self._job(target, job)
        return (200, list(found.logs)) if found else _NO_JOB

    def _get_exchanges(self, query: dict[str, str], body: Any, target: str, job: str) -> Answer:
        found = self._job(target, job)
        return (200, list(found.exchanges)) if found else _NO_JOB

    def _cancel(self, query: dict[str, str], body: Any, target: str, job: str) -> Answer:
        found = self._job(target, job)
        if found is None:
            return _NO_JOB
        if found.status not in ("pending", "queued"):
            detail = f"Job {job} cannot be canceled. Only pending or queued jobs can be canceled."
            return 400, {"detail": detail}
        found.data["status"] = "canceled"
        return 200, {"message": f"Job {job} canceled successfully."}

    def _interrupt(self, query: dict[str, str], body: Any, target: str, job: str) -> Answer:
        found = self._job(target, job)
        if found is None:
            return _NO_JOB
        if found.status in TERMINAL:
            return 400, {"detail": f"Job {job} is already in a terminal state"}
        if found.status != "running":
            crashes = found.status != "queued"
            found.data["status"] = "error"
            return (500, None) if crashes else (200, {"message": f"Job {job} interrupt requested."})
        self.interrupt(found)
        return 200, {"message": f"Job {job} interrupt requested."}

    def _resume(self, query: dict[str, str], body: Any, target: str, job: str) -> Answer:
        found = self._job(target, job)
        if found is None:
            return _NO_JOB
        if found.status not in BLOCKING:
            return 400, {"detail": f"Job {job} cannot be resumed from state {found.status}"}
        found.stopping.clear()
        found.data |= {"status": "queued", "error": None}
        return 200, self._job_view(found)

    def _resolve(self, query: dict[str, str], body: Any, target: str, job: str) -> Answer:
        found = self._job(target, job)
        if found is None:
            return _NO_JOB
        if found.status not in BLOCKING:
            return 400, {"detail": f"Cannot resolve job in status {found.status}"}
        found.data |= {"status": "success", "result": body}
        return 200, found.row()

    JOB_ROUTES = (
        ("POST", "targets/([^/]+)/jobs/", _create_job),
        ("GET", "targets/([^/]+)/jobs/", _list_jobs),
        ("GET", "targets/([^/]+)/jobs/([^/]+)", _get_job),
        ("GET", "targets/([^/]+)/jobs/([^/]+)/logs/", _get_logs),
        ("GET", "targets/([^/]+)/jobs/([^/]+)/http_exchanges/", _get_exchanges),
        ("POST", "targets/([^/]+)/jobs/([^/]+)/cancel/", _cancel),
        ("POST", "targets/([^/]+)/jobs/([^/]+)/interrupt/", _interrupt),
        ("POST", "targets/([^/]+)/jobs/([^/]+)/resume/", _resume),
        ("POST", "targets/([^/]+)/jobs/([^/]+)/resolve/", _resolve),
    )
