"""What a statement comes to, in a form that two sessions can be compared by."""

from __future__ import annotations

import psycopg


def answer(connection: psycopg.Connection, statement: str) -> list[tuple] | str | None:
    """Its rows, or its command tag where it has none, or the SQLSTATE of its error."""
    try:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else cursor.statusmessage
    except psycopg.Error as error:
        return error.sqlstate
