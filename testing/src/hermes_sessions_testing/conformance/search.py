"""Search: what the documented verb finds, and how it shows it."""

from __future__ import annotations

from typing import Any

from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.conformance.helpers import exchange, found, ids, say, unmarked

DOCUMENTED_KEYS = (
    "id session_id role snippet timestamp tool_name source model session_started context"
).split()


def snippets(db: SessionDB, query: str | None, **options: Any) -> list[str]:
    """Return the snippets of what `search_messages` finds, sorted."""
    return sorted(row["snippet"] for row in db.search_messages(query, **options))


class TestSearch:
    """Any text is a valid query, and finds the messages that match it."""

    def test_words_phrases_prefixes_and_exclusions(self, db: SessionDB) -> None:
        """Behaviour 57: case and order of words make no difference, the order of a phrase does."""
        plain, first, second = "Docker is fine", "Docker deployment failed", "two deployments"
        say(db, "s", plain, first, second, "compose a deployment for docker")
        other = "compose a deployment for docker"
        expected = {
            "docker": {plain, first, other},
            "DOCKER": {plain, first, other},
            "docker deployment": {first, other},
            "deployment docker": {first, other},
            '"docker deployment"': {first},
            '"deployment docker"': set(),
            "deploy*": {first, second, other},
            "deploy": set(),
            "docker NOT deployment": {plain},
            "docker -deployment": {plain},
            "docker NOT (deployment OR fine)": set(),
            "two OR fine": {plain, second},
            '"docker deploy"*': {first},
            "*ploymen*": {first, second, other},
        }
        assert {query: set(found(db, query)) for query in expected} == expected
        documented = db.search_messages("docker NOT deployment")
        assert [unmarked(row["snippet"]) for row in documented] == [plain]

    def test_and_or_and_groups(self, db: SessionDB) -> None:
        """Behaviour 57: AND binds closer than OR; groups change that; operators are upper case."""
        say(db, "s", "ant bee", "bee cat", "cat dog", "ant and dog")
        expected = {
            "ant bee OR cat dog": {"ant bee", "cat dog"},
            "ant (bee OR dog)": {"ant bee", "ant and dog"},
            "(ant OR cat) AND (bee OR dog)": {"ant bee", "bee cat", "cat dog", "ant and dog"},
            "(ant OR cat) -(bee OR and)": {"cat dog"},
            "ant and": {"ant and dog"},
            "-ant": {"bee cat", "cat dog"},
            "NOT NOT ant": {"ant bee", "ant and dog"},
            "ant OR -bee": {"ant bee", "cat dog", "ant and dog"},
        }
        assert {query: set(found(db, query)) for query in expected} == expected

    def test_matches_are_marked(self, db: SessionDB) -> None:
        """Behaviour 58: as they were written, a phrase as one."""
        say(db, "s", "The Docker daemon: docker-compose up, dockerize, Café")
        expected = {
            "docker": "The >>>Docker<<< daemon: >>>docker<<<-compose up, dockerize, Café",
            '"docker daemon"': "The >>>Docker daemon<<<: docker-compose up, dockerize, Café",
            "dockerize cafe": "The Docker daemon: docker-compose up, >>>dockerize<<<, >>>Café<<<",
            "dock*": "The >>>Docker<<< daemon: >>>docker<<<-compose up, >>>dockerize<<<, Café",
            "*emo*": "The Docker da>>>emo<<<n: docker-compose up, dockerize, Café",
        }
        assert {query: snippets(db, query) for query in expected} == {
            query: [snippet] for query, snippet in expected.items()
        }

    def test_punctuated_words(self, db: SessionDB) -> None:
        """Behaviour 59: hyphens, dots, underscores and other signs join words to a phrase."""
        texts = [
            "open my-app.config.ts now",
            "config of my app",
            "call snake_case_name()",
            "the name of a snake in this case",
            "mail anna@example.com about v1.2.3",
            "anna has an example: com 1 2 3",
            "I don't pay 50% in src/main.py",
            "parseQuery of HTTPServer",
        ]
        say(db, "s", *texts)
        expected = {
            "my-app.config.ts": {texts[0]},
            "app.config": {texts[0]},
            "snake_case_name": {texts[2]},
            "snake_case": {texts[2]},
            "anna@example.com": {texts[4]},
            "v1.2.3": {texts[4]},
            "don't": {texts[6]},
            "50%": {texts[6]},
            "src/main.py": {texts[6]},
            "main.*": {texts[6]},
            "parsequery": {texts[7]},
            "query": {texts[7]},
            "http": {texts[7]},
        }
        assert {query: set(found(db, query)) for query in expected} == expected

    def test_tools_are_found(self, db: SessionDB) -> None:
        """Behaviour 60: names and arguments of calls, and names of tools, as people read them."""
        db.create_session("s", "cli")
        arguments = '{"command": "kubectl get pods", "note": "Gr\\u00fc\\u00dfe"}'
        call = {"id": "c1", "function": {"name": "terminal", "arguments": arguments}}
        called = db.append_message("s", "assistant", None, tool_calls=[call])
        answered = db.append_message(
            "s", "tool", '{"output": "3 pods \\u5e7f\\u897f"}', tool_name="web_search"
        )
        expected = {
            "kubectl": [called],
            '"get pods"': [called],
            "grüße": [called],
            "terminal": [called],
            "web_search": [answered],
            "广西": [answered],
            "pods": [called, answered],
            "u897f": [],
        }
        assert {query: sorted(ids(db.search_messages(query))) for query in expected} == expected

    def test_texts_of_a_message_are_apart(self, db: SessionDB) -> None:
        """Behaviour 60: a phrase does not reach from the content into the name of a tool."""
        db.create_session("s", "cli")
        db.append_message("s", "tool", "ends here", tool_name="terminal")
        assert found(db, "here terminal") == ["ends here"]
        assert found(db, '"here terminal"') == []

    def test_results_have_the_documented_keys(self, db: SessionDB) -> None:
        """Behaviour 61: in their order, without the content, ours behind them."""
        (number,) = say(db, "s", "hello world", title="Greetings", model="m-1", started_at=5.0)
        (row,) = db.search_messages("hello")
        assert list(row)[: len(DOCUMENTED_KEYS)] == DOCUMENTED_KEYS
        assert "content" not in row
        (message,) = db.get_messages("s")
        assert row["id"] == number
        assert row["timestamp"] == message["timestamp"]
        expected = {
            "session_id": "s",
            "role": "user",
            "snippet": ">>>hello<<< world",
            "tool_name": None,
            "source": "cli",
            "model": "m-1",
            "session_started": 5.0,
            "title": "Greetings",
            "conversation_id": "s",
            "ordinal": 1,
            "matched": "message",
        }
        assert row.items() >= expected.items()

    def test_context(self, db: SessionDB) -> None:
        """Behaviour 62: the message before, the hit and the one after, cut to 200 characters."""
        db.create_session("s", "cli")
        picture = {"type": "image_url", "image_url": {"url": "data:"}}
        parts = [{"type": "text", "text": "two"}, {"type": "text", "text": "parts"}, picture]
        for content in ("first", "x" * 300, parts, [picture], None, "last"):
            db.append_message("s", "user", content)
        say(db, "alone", "lonely")

        def around(query: str) -> list[str]:
            (row,) = db.search_messages(query)
            assert {entry["role"] for entry in row["context"]} == {"user"}
            return [entry["content"] for entry in row["context"]]

        assert around("first") == ["first", "x" * 200]
        assert around("parts") == ["x" * 200, "two parts", "[multimodal content]"]
        assert around("last") == ["", "last"]
        assert around("lonely") == ["lonely"]

    def test_context_follows_the_transcript(self, db: SessionDB) -> None:
        """Behaviour 62: by place, not by clock, and without what was taken back."""
        db.create_session("s", "cli")
        for text, moment in (("one", 300.0), ("two", 100.0), ("three", 200.0)):
            db.append_message("s", "user", text, timestamp=moment)
        (row,) = db.search_messages("two")
        assert [entry["content"] for entry in row["context"]] == ["one", "two", "three"]
        taken_back = db.list_recent_user_messages("s", limit=1)[0]["id"]
        db.rewind_to_message("s", taken_back)
        db.append_message("s", "user", "four")
        (row,) = db.search_messages("two")
        assert [entry["content"] for entry in row["context"]] == ["one", "two", "four"]

    def test_unfinished_queries_are_mended(self, db: SessionDB) -> None:
        """Behaviours 63 and 71: no error, and the result reports the repairs."""
        say(db, "s", "hello world", "something else")
        for query in (
            '"hello',
            "(hello",
            "hello)",
            "hello AND",
            "AND OR hello",
            "hello AND AND",
            "hello NOT",
            "OR hello OR",
            '"" hello',
            "hello ()",
            "hello *",
            "((hello) OR",
        ):
            assert snippets(db, query) == [">>>hello<<< world"], query
            assert db.search(query).report.repairs, query
        for query in ("AND", "NOT", "OR OR", "***", "()", '""', "NOT ()"):
            assert db.search_messages(query) == [], query
            account = db.search(query).report
            assert account.repairs, query
            assert account.notes, query

    def test_nothing_to_search_for(self, db: SessionDB) -> None:
        """Behaviour 71: the result is empty and reports why."""
        say(db, "s", "hello world")
        for query in (None, "", " \n\t"):
            assert db.search_messages(query) == []
        for query in ("", " \n\t"):
            answer = db.search(query)
            assert (answer.hits, answer.report.total, answer.next_cursor) == ([], 0, None)
            assert answer.report.notes

    def test_signs_alone_are_looked_for(self, db: SessionDB) -> None:
        """Behaviour 71: punctuation is not a word, but is found when the query has nothing else."""
        say(db, "s", "wait -> what", "a => b", "nothing of the kind", "rocket 🚀 science")
        assert found(db, "->") == ["wait -> what"]
        assert found(db, "=>") == ["a => b"]
        assert found(db, "🚀") == ["rocket 🚀 science"]
        assert found(db, "a => b") == ["a => b"]

    def test_empty_filters(self, db: SessionDB) -> None:
        """Behaviour 64: an empty source list finds nothing; empty roles do not filter."""
        say(db, "s", "hello world")
        assert db.search_messages("hello", source_filter=[]) == []
        assert len(db.search_messages("hello", role_filter=[])) == 1
        assert len(db.search_messages("hello", exclude_sources=[])) == 1

    def test_documented_filters(self, db: SessionDB) -> None:
        """Behaviour 64: by source and role, wanted and unwanted."""
        say(db, "c", "hello cli", "hello answer")
        say(db, "t", "hello telegram", source="telegram")
        say(db, "x", "hello cron", source="cron")

        def by(**filters: Any) -> list[str]:
            return sorted(
                unmarked(row["snippet"]) for row in db.search_messages("hello", **filters)
            )

        assert by(source_filter=["telegram", "cron"]) == ["hello cron", "hello telegram"]
        assert by(exclude_sources=["cron", "cli"]) == ["hello telegram"]
        assert by(role_filter=["assistant"]) == ["hello answer"]
        assert by(source_filter=["cli"], role_filter=["user"]) == ["hello cli"]
        assert by(source_filter=["cli"], exclude_sources=["cli"]) == []
        assert by(source_filter=["CLI"]) == []

    def test_scripts_without_blanks(self, db: SessionDB) -> None:
        """Behaviour 65: any piece is found, from one character on, and marked."""
        say(db, "zh", "我们使用数据库备份系统", "数据很重要")
        say(db, "ja", "東京タワーへ行きました")
        say(db, "ko", "데이터베이스를 백업했어요")
        expected = {
            "数据库备份": ["我们使用>>>数据库备份<<<系统"],
            "数据库": ["我们使用>>>数据库<<<备份系统"],
            "据库": ["我们使用数>>>据库<<<备份系统"],
            "库": ["我们使用数据>>>库<<<备份系统"],
            "数据": ["我们使用>>>数据<<<库备份系统", ">>>数据<<<很重要"],
            "数库": [],
            "タワー": ["東京>>>タワー<<<へ行きました"],
            "東": [">>>東<<<京タワーへ行きました"],
            "데이터": [">>>데이터<<<베이스를 백업했어요"],
            "백업": ["데이터베이스를 >>>백업<<<했어요"],
            '"数据库"*': ["我们使用>>>数据库<<<备份系统"],
        }
        answers = {
            query: sorted(hit.snippet for hit in db.search(query, relax=False).hits)
            for query in expected
        }
        assert answers == {query: sorted(hits) for query, hits in expected.items()}

    def test_logic_in_every_script(self, db: SessionDB) -> None:
        """Behaviours 66 and 67: OR matches either side, all words must match, NOT excludes."""
        both, one, other = "广西和桂林", "广西很大", "桂林山水 docker"
        say(db, "s", both, one, other, "使用Docker部署")
        expected = {
            "广西 OR 桂林": {both, one, other},
            "广西 桂林": {both},
            "广西 AND 桂林": {both},
            "广西 NOT 桂林": {one},
            "桂林山水 docker": {other},
            "docker": {other, "使用Docker部署"},
            "使用docker": {"使用Docker部署"},
            "docker -部署": {other},
        }
        assert {query: set(found(db, query)) for query in expected} == expected

    def test_no_character_is_a_wildcard(self, db: SessionDB) -> None:
        """Behaviour 68: wildcards of the database and its search engine have no effect."""
        say(db, "s", "100%广告", "100x广告", "1000广告", "abc", "a_c a%c", "file[1].txt", "file1")
        expected = {
            "100%广": {"100%广告"},
            "_广告 100": {"100%广告"},
            "a_c": {"a_c a%c"},
            "a%c": {"a_c a%c"},
            "*a%c*": {"a_c a%c"},
            "*a_c*": {"a_c a%c"},
            "ab?": set(),
            "a.c": {"a_c a%c"},
            "file[1]": {"file[1].txt"},
            "%": {"100%广告", "a_c a%c"},
        }
        assert {query: set(found(db, query)) for query in expected} == expected

    def test_accents_case_and_width(self, db: SessionDB) -> None:
        """Behaviour 70: folded in texts and in queries, composed or not, and in no other script."""
        say(
            db,
            "s",
            "Café Größe",
            "cafe\u0301 naïve",
            "ＦＵＬＬ　ｗｉｄｔｈ",
            "ŁÓDŹ",
            "がっこう",
            "Привет ёлка",
        )
        expected = {
            "cafe": {"Café Größe", "cafe\u0301 naïve"},
            "CAFÉ": {"Café Größe", "cafe\u0301 naïve"},
            "grosse": {"Café Größe"},
            "full": {"ＦＵＬＬ ｗｉｄｔｈ"},
            "lodz": {"ŁÓDŹ"},
            "елка": {"Привет ёлка"},
            "ПРИВЕТ": {"Привет ёлка"},
            "かっこう": set(),
        }
        assert {query: set(found(db, query)) for query in expected} == expected

    def test_structured_content(self, db: SessionDB) -> None:
        """Behaviour 60: the text parts are found, the form they are stored in is not."""
        parts = [
            {"type": "text", "text": "umbrella weather"},
            {"type": "image_url", "image_url": {"url": "https://example.com/secret.png"}},
        ]
        say(db, "s", parts)
        assert found(db, "umbrella") == ["umbrella weather"]
        for query in ("json", "image_url", "type", "secret"):
            assert found(db, query) == [], query

    def test_limit_and_offset(self, db: SessionDB) -> None:
        """A limit of 0 returns nothing, -1 everything; pages by offset do not overlap."""
        db.create_session("s", "cli")
        for number in range(30):
            exchange(db, "s", f"apple {number}", "pear")
        assert len(db.search_messages("apple")) == 20
        assert db.search_messages("apple", limit=0) == []
        whole = ids(db.search_messages("apple", limit=-1))
        assert len(set(whole)) == 30
        pages = [
            ids(db.search_messages("apple", limit=7, offset=start)) for start in range(0, 35, 7)
        ]
        assert [number for page in pages for number in page] == whole
        assert db.search_messages("apple", offset=30) == []
        assert ids(db.search_messages("apple", limit=-1, offset=25)) == whole[25:]
