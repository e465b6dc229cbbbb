"""What hermes-agent 0.19 asks of the usage table by SQL of its own."""

from __future__ import annotations

from hermes_state import SessionDB


def require_usage(db: SessionDB) -> None:
    """Assert the split of its dashboard by task, and the rows of its insights."""
    db.create_session("used", "cli", model="large")
    db.update_token_counts("used", input_tokens=100, output_tokens=7, model="large")
    db.record_auxiliary_usage("used", "compression", model="small", input_tokens=9)
    rows = db._conn.execute(
        """
        SELECT u.model, u.task, u.billing_provider, SUM(u.input_tokens) as input_tokens,
               COUNT(DISTINCT u.session_id) as sessions, MAX(u.last_seen) as last_used_at
        FROM session_model_usage u JOIN sessions s ON s.id = u.session_id
        WHERE s.started_at > ? AND u.task != ''
        GROUP BY u.model, u.task, u.billing_provider
        ORDER BY SUM(u.input_tokens) + SUM(u.output_tokens) DESC
        """,
        (0,),
    ).fetchall()
    [row] = rows
    assert (row["model"], row["task"], row["input_tokens"]) == ("small", "compression", 9)
    assert row["last_used_at"] > 0
    found = db._conn.execute(
        "SELECT u.session_id, u.input_tokens, u.cost_status, u.cost_source, u.first_seen "
        "FROM session_model_usage u JOIN sessions s ON s.id = u.session_id "
        "WHERE s.started_at >= ? ORDER BY u.input_tokens",
        (0,),
    ).fetchall()
    assert [(each["session_id"], each["input_tokens"]) for each in found][-2:] == [
        ("used", 9),
        ("used", 100),
    ]
