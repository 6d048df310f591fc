"""What the server answers about targets and their sessions."""

from __future__ import annotations

import time
import uuid
from typing import Any

from tests.peers.legacy_use.bodies import SessionCreate, TargetCreate
from tests.peers.legacy_use.container import IP, Container
from tests.peers.legacy_use.rows import BLOCKING, Row, now, query_flag
from tests.peers.legacy_use.workers import Workers

Answer = tuple[int, Any]
_NO_TARGET: Answer = (404, {"detail": "Target not found"})
_NO_SESSION: Answer = (404, {"detail": "Session not found"})


class Targets(Workers):
    """The paths below ``targets/`` and ``sessions/``, those of jobs left aside."""

    def _list_targets(self, query: dict[str, str], body: Any) -> Answer:
        found = [t for t in self.targets.values() if query_flag(query, "include_archived") or not t["is_archived"]]
        return 200, [self._target_view(target) | self._session_fields(target) for target in found]

    def _target_view(self, target: Row) -> dict[str, Any]:
        jobs = [job for job in self.jobs.values() if job.data["target_id"] == target["id"]]
        blocking = [job.row() for job in jobs if job.status in BLOCKING][:100]
        return target.data | {
            "queue_status": "paused" if blocking else "running", "blocking_jobs": blocking,
            "has_blocking_jobs": bool(blocking), "blocking_jobs_count": len(blocking),
            "has_active_session": False, "has_initializing_session": False,
        }  # fmt: skip

    def _session_fields(self, target: Row) -> dict[str, Any]:
        """Only the list has them; a single target says false."""
        states = {s["state"] for s in self.sessions.values() if s["target_id"] == target["id"] and not s["is_archived"]}
        return {"has_active_session": "ready" in states, "has_initializing_session": "initializing" in states}

    def _create_target(self, query: dict[str, str], body: Any) -> Answer:
        data = TargetCreate.model_validate(body).model_dump()
        data |= {"id": str(uuid.uuid4()), "created_at": now(), "updated_at": now(), "is_archived": False}
        row = self.targets[data["id"]] = Row(data)
        return 200, self._target_view(row) | {"queue_status": None, "blocking_jobs": None}

    def _get_target(self, query: dict[str, str], body: Any, target: str) -> Answer:
        row = self.targets.get(target)
        return (200, self._target_view(row)) if row else _NO_TARGET

    def _archive_target(self, query: dict[str, str], body: Any, target: str) -> Answer:
        row = self.targets.get(target)
        if row is None:
            return _NO_TARGET
        row.data["is_archived"] = True  # with its password; its sessions, and jobs still to come, go on
        return 200, {"message": "Target archived"}

    def _unarchive_target(self, query: dict[str, str], body: Any, target: str) -> Answer:
        row = self.targets.get(target)
        if row is None:
            return 500, {"detail": "Failed to unarchive target"}
        row.data["is_archived"] = False
        return 200, {"message": "Target unarchived successfully"}

    def _erase_target(self, query: dict[str, str], body: Any, target: str) -> Answer:
        if self.targets.pop(target, None) is None:
            return _NO_TARGET
        # Containers are not stopped: they leak.
        self.sessions = {k: s for k, s in self.sessions.items() if s["target_id"] != target}
        self.jobs = {k: j for k, j in self.jobs.items() if j.data["target_id"] != target}
        return 200, {"message": "Target permanently deleted"}

    def _list_sessions(self, query: dict[str, str], body: Any) -> Answer:
        found = [s for s in self.sessions.values() if query_flag(query, "include_archived") or not s["is_archived"]]
        return 200, [self._session_view(session) for session in found]

    def _session_view(self, session: Row) -> dict[str, Any]:
        status: dict[str, Any] | None = None
        if session["state"] in ("destroying", "destroyed"):
            status = {"id": session["container_id"], "state": {"Status": "unavailable"}}
        elif session.container is not None:
            healthy, reason = session.container.health()
            seen_by_monitor = time.monotonic() - session.created > self.behaviour.ready_after
            if healthy and seen_by_monitor and session["state"] == "initializing":
                session.data["state"] = "ready"
            status = {
                "id": session["container_id"], "image": "legacy-use-target:local",
                "state": {"Status": "running", "Running": True}, "network_settings": {},
                "health": {"healthy": healthy, "reason": reason, "timestamp": now(zone=True)},
                "load_average": {"load_1": 0.1, "load_5": 0.1, "load_15": 0.1, "timestamp": now()},
            }  # fmt: skip
        return session.data | {"container_status": status}

    def _create_session(self, query: dict[str, str], body: Any) -> Answer:
        given = SessionCreate.model_validate(body)
        target = self.targets.get(given.target_id)
        if target is None:
            return _NO_TARGET
        there = [s for s in self.sessions.values() if s["target_id"] == given.target_id and not s["is_archived"]]
        if there:
            about = {name: there[0][name] for name in ("id", "name", "state", "status", "created_at")}
            message = "An active session already exists for this target"
            return 409, {"detail": {"message": message, "existing_session": about}}
        session = self.new_session(given.name, target)
        if session.container is None:
            return 500, None  # the row stays
        return 200, self._session_view(session)

    def new_session(self, name: str, target: Row) -> Row:
        """Stores a session and starts its container."""
        data = {
            "id": str(uuid.uuid4()), "name": name, "description": None, "target_id": target["id"], "status": "created",
            "state": "initializing", "container_id": None, "container_ip": None, "created_at": now(), "updated_at": now(),
            "is_archived": False, "archive_reason": None, "last_job_time": None,
        }  # fmt: skip
        session = self.sessions[data["id"]] = Row(data)
        if self.behaviour.has_image:
            data |= {"status": "running", "container_id": uuid.uuid4().hex, "container_ip": IP}
            session.container = Container(target.data, time.monotonic() + self.behaviour.health_after)
            if not self.behaviour.has_docker_network:
                data |= {"status": "error", "container_ip": None}
        return session

    def _get_session(self, query: dict[str, str], body: Any, session: str) -> Answer:
        row = self.sessions.get(session)
        return (200, self._session_view(row)) if row else _NO_SESSION

    def _delete_session(self, query: dict[str, str], body: Any, session: str) -> Answer:
        row = self.sessions.get(session)
        if row is None:
            return _NO_SESSION
        row.data |= {"state": "destroying", "is_archived": True, "archive_reason": "user-initiated"}
        if row.container is not None:
            row.container.remove()
        return 200, {"message": "Session archived successfully"}

    TARGET_ROUTES = (
        ("GET", "targets/", _list_targets),
        ("POST", "targets/", _create_target),
        ("GET", "targets/([^/]+)", _get_target),
        ("DELETE", "targets/([^/]+)", _archive_target),
        ("DELETE", "targets/([^/]+)/hard", _erase_target),
        ("POST", "targets/([^/]+)/unarchive", _unarchive_target),
        ("GET", "sessions/", _list_sessions),
        ("POST", "sessions/", _create_session),
        ("GET", "sessions/([^/]+)", _get_session),
        ("DELETE", "sessions/([^/]+)", _delete_session),
    )
