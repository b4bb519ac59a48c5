"""
Keys: who may do what, how keys come and go, and what a service without keys refuses.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import os
import re
import signal
import subprocess
import sys

import pytest
import requests
import yaml

from browser import Browser
from conftest import BINARY, GAUSSIAN, ROOT, check_problem, draw_key, until

sys.path.insert(0, str(ROOT / "api" / "python"))

import epsilond  # noqa: E402

CONTRACT = yaml.safe_load((ROOT / "api" / "openapi.yaml").read_text())
METHODS = ("get", "post", "delete")
SCOPES = ("anyone", "read", "submit", "admin")
ID = "01234567-0000-7000-8000-000000000000"


def run(*arguments, **environment):
    return subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=60,
                          env={**os.environ, **environment})


def draw(scope="submit", *options):
    return draw_key("--scope", scope, *options)


def bearer(key):
    return {"Authorization": f"Bearer {key}"} if key else {}


@pytest.fixture(scope="module")
def keys():
    return {scope: draw(scope) for scope in SCOPES[1:]}


@pytest.fixture
def guarded(launch, tmp_path, keys):
    """A server that has one key of each scope."""
    path = tmp_path / "keys"
    path.write_text("# of the tests\n\n" + "".join(f"{line}\n" for _, line in keys.values()))
    path.chmod(0o600)
    server = launch("--keys", str(path))
    server.keys = path
    return server


def operations():
    for path, item in CONTRACT["paths"].items():
        for method in item.keys() & set(METHODS):
            yield method.upper(), path, item[method]


# ---------------------------------------------------------------- scopes


def test_every_route_has_the_scope_of_the_contract():
    table = (ROOT / "server" / "routes" / "table.c").read_text()
    rows = {(method, path): scope.lower()
            for method, path, scope in re.findall(r'^    \{"([A-Z]+)", "([^"]+)", ACCESS_(\w+),', table, re.M)}
    assert rows == {(method, path): operation["x-scope"] for method, path, operation in operations()}
    for method, path, operation in operations():
        assert (operation.get("security") == []) == (operation["x-scope"] == "anyone")
        assert method == "GET" or operation["x-scope"] == "submit", (method, path)


def test_a_key_serves_for_its_scope_and_those_before_it(guarded, keys):
    """Every operation, without a key and with each one: permitted, 401 or 403."""
    for method, path, operation in operations():
        target = path.format(id=ID, type="quota", file="main.js")
        for has in SCOPES:
            key = keys[has][0] if has != "anyone" else None
            answer = requests.request(method, guarded.url + target, headers=bearer(key), json={}, timeout=60)
            if SCOPES.index(has) >= SCOPES.index(operation["x-scope"]):
                assert answer.status_code in (200, 404, 422), (method, path, has, answer.text)
            elif has == "anyone":
                check_problem(answer, 401, "unauthenticated")
                assert answer.headers["WWW-Authenticate"] == 'Bearer realm="epsilond"'
            else:
                problem = check_problem(answer, 403, "insufficient-scope")
                assert operation["x-scope"] in problem["detail"]
                assert f'scope="{operation["x-scope"]}"' in answer.headers["WWW-Authenticate"]


def test_only_the_whole_key_is_right(guarded, keys):
    key, line = keys["read"]
    other = keys["submit"][0]
    wrong = [key[:-1], key + "A", key[:-1] + ("A" if key[-1] != "A" else "B"), key.upper(), key[5:], line.split()[3],
             key[:14] + other[14:], "epsk_00000000" + key[13:], "epsk_", "x" * 5000, "é"]
    for text in wrong:
        answer = requests.get(guarded.url + "/v1/jobs", headers=bearer(text.encode()), timeout=60)
        if answer.status_code != 431:  # the head is too long for a key
            check_problem(answer, 401, "unauthenticated")
            assert 'error="invalid_token"' in answer.headers["WWW-Authenticate"]
    for header in (key, "Bearer", "Basic " + key, "Bearerx " + key, "Token " + key):
        answer = requests.get(guarded.url + "/v1/jobs", headers={"Authorization": header}, timeout=60)
        check_problem(answer, 401, "unauthenticated")
    for header in ("bearer " + key, "BEARER   " + key):
        assert requests.get(guarded.url + "/v1/jobs", headers={"Authorization": header}, timeout=60).status_code == 200
    twice = requests.get(guarded.url + "/v1/jobs?key=" + key, timeout=60)
    check_problem(twice, 401, "unauthenticated")


def test_nothing_of_a_refused_request_is_read_or_done(guarded, keys):
    huge = b"[" + b"0," * (6 << 20) + b"0]"
    answer = requests.post(guarded.url + "/v1/jobs", data=huge, headers={"Content-Type": "application/json"},
                           timeout=60)
    check_problem(answer, 401, "unauthenticated")
    job = requests.post(guarded.url + "/v1/jobs?wait=60", json=GAUSSIAN, headers=bearer(keys["submit"][0]),
                        timeout=100).json()
    path = guarded.url + job["links"]["self"]
    for key in (None, keys["read"][0]):
        assert requests.delete(path, headers=bearer(key), timeout=60).status_code in (401, 403)
    assert requests.get(path, headers=bearer(keys["read"][0]), timeout=60).json()["status"] == "succeeded"
    head = requests.head(path, timeout=60)
    assert (head.status_code, head.content) == (401, b"")
    assert requests.head(path, headers=bearer(keys["read"][0]), timeout=60).status_code == 200
    assert requests.options(path, timeout=60).headers["Allow"] == "GET, HEAD, DELETE, OPTIONS"


def test_the_log_names_keys_by_their_ids_alone(guarded, keys):
    for key, _ in keys.values():
        requests.get(guarded.url + "/v1", headers=bearer(key), timeout=60)
        requests.get(guarded.url + "/v1", headers=bearer(key + "x"), timeout=60)
    until(lambda: guarded.log_text().count("path=/v1 ") == 6)
    for key, line in keys.values():
        assert guarded.log_text().count(f" key={line.split()[0]} ") == 1
        assert key[14:] not in guarded.log_text()


# ---------------------------------------------------------------- groups


@pytest.fixture
def shared(launch, tmp_path):
    """A server of two groups, by their keys: a1, a2 and reader of a, b1 of b, and one of scope admin in a third."""
    drawn = {"a1": draw("submit", "--group", "a"), "a2": draw("submit", "--group", "a"),
             "reader": draw("read", "--group", "a"), "b1": draw("submit", "--group", "b"),
             "admin": draw("admin", "--group", "c")}
    path = tmp_path / "keys"
    path.write_text("".join(f"{line}\n" for _, line in drawn.values()))
    path.chmod(0o600)
    server = launch("--keys", str(path))
    server.of = {name: bearer(key) for name, (key, _) in drawn.items()}
    return server


def ask(server, who, path, method="GET", **options):
    return requests.request(method, server.url + path, headers={**server.of[who], **options.pop("headers", {})},
                            timeout=100, **options)


SWEEP = {"base": GAUSSIAN, "grid": {"/noise_multiplier": [1, 2]}}
PLAN = {"n": 10, "batch_size": 10, "dataset_size": 100, "epsilon": 1, "delta": 1e-5, "schemes": ["none"],
        "families": ["identity"]}


def test_what_a_group_posts_is_hidden_from_the_others(shared):
    """Every operation on every kind of resource: 404, as for an id that does not exist; and nothing happens."""
    posted = {kind: ask(shared, "a1", f"/v1/{kind}", "POST", json=body).json()
              for kind, body in (("jobs", GAUSSIAN), ("sweeps", SWEEP), ("plans", PLAN))}
    for kind, document in posted.items():
        ended = ask(shared, "a2", document["links"]["self"] + "?wait=60").json()
        assert ended["status"] == "succeeded"
        posted[kind] = ended
    child = ask(shared, "reader", posted["sweeps"]["links"]["points"]).json()["items"][0]["job"]
    seen = 0
    for method, path, operation in operations():
        if "{id}" not in path:
            continue
        kind = path.split("/")[2]
        for id in [posted[kind]["id"]] + [child] * (kind == "jobs"):
            target = path.format(id=id)
            hidden, absent = (ask(shared, "b1", path.format(id=one), method) for one in (id, ID))
            assert check_problem(hidden, 404, "not-found")["detail"] == absent.json()["detail"], target
            if method == "GET":
                assert ask(shared, "reader", target).status_code in (200, 204), target
                assert ask(shared, "admin", target).status_code in (200, 204), target
            seen += 1
    assert seen > 25
    for kind, document in posted.items():
        assert ask(shared, "a2", document["links"]["self"]).json()["status"] == "succeeded"
    for path in ("/v1/noise", "/v1/batches"):
        body = {"job": posted["jobs"]["id"], **({"dimensions": 2} if path == "/v1/noise" else {})}
        hidden, absent = (ask(shared, "b1", path, "POST", json={**body, "job": one}) for one in (body["job"], ID))
        assert check_problem(hidden, 404, "not-found")["detail"] == absent.json()["detail"]
        assert ask(shared, "a2", path, "POST", json=body).status_code in (200, 409, 422)
    assert ask(shared, "admin", posted["jobs"]["links"]["self"], "DELETE").status_code == 204
    assert ask(shared, "a1", posted["jobs"]["links"]["self"]).status_code == 404


def test_lists_show_the_group_alone(shared):
    """With every filter and on every page, though the pages of lists are cached."""
    ids = {"a1": [], "b1": []}
    for i in range(7):
        for who, own in ids.items():
            job = ask(shared, who, "/v1/jobs?wait=60", "POST",
                      json={**GAUSSIAN, "noise_multiplier": 1 + i // 2, "label": f"l{i % 2}"}).json()
            own.append(job["id"])
            ask(shared, who, "/v1/sweeps", "POST", json={**SWEEP, "label": who})

    def listed(who, query, path="/v1/jobs"):
        found, cursor = [], None
        while True:
            page = ask(shared, who, f"{path}?limit=3{query}{f'&cursor={cursor}' if cursor else ''}").json()
            found += [item["id"] for item in page["items"]]
            cursor = page["next"]
            if not cursor:
                return found[::-1]

    for _ in range(2):
        for who, own in ids.items():
            assert listed(who, "") == listed(who, "&status=succeeded") == own
            assert listed(who, "&label=l0") == listed(who, "&label=l0&status=succeeded") == own[::2]
            assert listed(who, "&status=failed") == []
        assert listed("reader", "") == listed("a2", "") == ids["a1"]
        assert sorted(listed("admin", "")) == sorted(ids["a1"] + ids["b1"])
        assert len(listed("admin", "", "/v1/sweeps")) == 14
        for who in ids:
            assert len(listed(who, "", "/v1/sweeps")) == len(listed(who, f"&label={who}", "/v1/sweeps")) == 7
        assert listed("a1", "&label=b1", "/v1/sweeps") == []


def test_idempotency_keys_are_those_of_a_group(shared):
    header = {"Idempotency-Key": "one"}
    posted = {who: ask(shared, who, "/v1/jobs", "POST", json=GAUSSIAN, headers=header) for who in ("a1", "b1", "a2")}
    assert posted["a1"].json()["id"] == posted["a2"].json()["id"] != posted["b1"].json()["id"]
    assert posted["a2"].headers["Idempotent-Replayed"] == "true"
    assert "Idempotent-Replayed" not in posted["b1"].headers


def test_equal_jobs_of_two_groups_share_their_result_alone(shared):
    first = ask(shared, "a1", "/v1/jobs?wait=60", "POST", json=GAUSSIAN).json()
    second = ask(shared, "b1", "/v1/jobs?wait=60", "POST", json=GAUSSIAN).json()
    assert second["result"]["cache"]["result"] == "hit" and second["id"] != first["id"]
    assert ask(shared, "b1", second["links"]["self"]).status_code == 200
    assert ask(shared, "b1", first["links"]["self"]).status_code == 404


def test_groups_outlive_a_restart_and_what_had_none_is_for_admins(launch, tmp_path):
    (a, a_line), (b, b_line), (admin, admin_line) = (draw("submit", "--group", "a"), draw("submit", "--group", "b"),
                                                     draw("admin"))
    server = launch()
    old = server.solve(GAUSSIAN)
    server.stop()
    path = tmp_path / "keys"
    path.write_text("\n".join((a_line, b_line, admin_line)))
    path.chmod(0o600)
    server.start("--keys", str(path))
    job = requests.post(server.url + "/v1/jobs?wait=60", json={**GAUSSIAN, "n": 7}, headers=bearer(a),
                        timeout=60).json()
    server.kill()
    server.start("--keys", str(path))
    for key, sees in (a, [200, 404]), (b, [404, 404]), (admin, [200, 200]):
        assert [requests.get(server.url + one["links"]["self"], headers=bearer(key), timeout=60).status_code
                for one in (job, old)] == sees
    server.stop()
    server.start()  # without keys everyone sees everything
    assert [server.get(one["links"]["self"]).status_code for one in (job, old)] == [200, 200]


# ---------------------------------------------------------------- keys come and go


def test_keys_are_read_again_at_a_hangup(guarded, keys):
    def status(key):
        return requests.get(guarded.url + "/v1", headers=bearer(key), timeout=60).status_code

    def reload(text, expect):
        guarded.keys.write_text(text)
        before = guarded.log_text().count("event=keys")
        guarded.process.send_signal(signal.SIGHUP)
        until(lambda: guarded.log_text().count("event=keys") > before)
        assert expect in [line for line in guarded.log_text().splitlines() if "event=keys" in line][-1]

    fresh, line = draw("read", "--name", "new")
    assert (status(keys["read"][0]), status(fresh)) == (200, 401)
    reload(line + "\n", "count=1")
    assert (status(keys["read"][0]), status(fresh)) == (401, 200)
    for broken in ("", "# none\n", "nonsense\n", line + "\n" + line + "\n", line.replace(" read ", " write ") + "\n",
                   line.replace(" default ", " ") + "\n", line[:-10].replace(" new", "") + "\n"):
        reload(broken, "the former keys stay valid")
        assert status(fresh) == 200
    guarded.keys.unlink()
    guarded.process.send_signal(signal.SIGHUP)
    until(lambda: "No such file" in guarded.log_text())
    assert status(fresh) == 200


def test_a_hangup_without_keys_changes_nothing(launch):
    server = launch()
    server.process.send_signal(signal.SIGHUP)
    until(lambda: "nothing to reload" in server.log_text())
    assert server.get("/v1").status_code == 200


def test_lines_may_come_from_the_environment(launch, keys):
    lines = ",".join(line for _, line in keys.values())
    server = launch(env={**os.environ, "EPSILOND_KEY_LINES": lines})
    check_problem(server.get("/v1"), 401, "unauthenticated")
    for key, _ in keys.values():
        assert server.get("/v1", headers=bearer(key)).status_code == 200


def test_what_is_no_key_file_is_refused(tmp_path, keys):
    line = keys["read"][1]
    texts = {"empty": ("", "has no key"), "twice": (f"{line}\n{line}\n", "line 2 of"),
             "scope": (line.replace(" read ", " all "), "read, submit or admin"),
             "hash": (line[:-3], "64 hexadecimal digits"),
             "group": (line.replace("default", "x" * 65), "has a group"), "id": ("key " + line, "8 hexadecimal digits"),
             "zero": (line + "\n\0", "could not be read as text"), "long": (line + " " + "x" * 65, "at most 64")}
    for name, (text, why) in texts.items():
        path = tmp_path / name
        path.write_text(text)
        path.chmod(0o600)
        ended = run("serve", "--listen", "127.0.0.1:0", "--db", str(tmp_path / "x.db"), "--keys", str(path))
        assert ended.returncode == 1 and why in ended.stderr, (name, ended.stderr)
    open_to_all = tmp_path / "open"
    open_to_all.write_text(line)
    open_to_all.chmod(0o666)
    os.mkfifo(tmp_path / "fifo")
    for path, why in ((open_to_all, "chmod go-w"), (tmp_path / "fifo", "no regular file"),
                      (tmp_path, "no regular file"), (tmp_path / "none", "No such file")):
        ended = run("serve", "--listen", "127.0.0.1:0", "--db", str(tmp_path / "x.db"), "--keys", str(path))
        assert ended.returncode == 1 and why in ended.stderr, ended.stderr
    assert not (tmp_path / "x.db").exists()


def test_beyond_this_machine_keys_are_required(launch, tmp_path, keys):
    for address in ("0.0.0.0:0", "[::]:0"):
        ended = run("serve", "--listen", address, "--db", str(tmp_path / "x.db"))
        assert ended.returncode == 1 and "--keys" in ended.stderr and "--insecure" in ended.stderr, ended.stderr
    assert not (tmp_path / "x.db").exists()
    for options in (["--insecure"], ["--key-lines", keys["read"][1]]):
        server = launch("--listen", "0.0.0.0:0", *options)
        server.url = server.url.replace("0.0.0.0", "127.0.0.1")
        assert server.get("/v1", headers=bearer(keys["read"][0])).status_code == 200


def test_a_new_key_is_printed_once():
    """First line the key, last line that of the file, in which the key is not."""
    key, line = draw("admin", "--name", "alice")
    assert re.fullmatch(r"epsk_[0-9a-f]{8}_[A-Za-z0-9_-]{43}", key)
    assert re.fullmatch(key[5:13] + r" admin default [0-9a-f]{64} alice", line) and key[14:] not in line
    assert draw("read", "--group", "research")[1].split()[2] == "research"
    assert run("key", "new").stdout.splitlines()[-1].split()[1] == "submit"
    assert len({draw()[0] for _ in range(20)}) == 20
    for wrong in (["key"], ["key", "old"], ["key", "new", "new"], ["key", "--scope", "all", "new"],
                  ["key", "--name", "a b", "new"], ["key", "--name", "a,b", "new"],
                  ["key", "--group", "", "new"], ["key", "--group", "a b", "new"], ["key", "--name", "x" * 65, "new"]):
        ended = run(*wrong)
        assert (ended.returncode, ended.stdout) == (2, "") and ended.stderr, wrong


# ---------------------------------------------------------------- clients


def test_the_client_sends_its_key(guarded, keys, monkeypatch):
    with pytest.raises(epsilond.Problem) as refused:
        epsilond.Client(guarded.url).solve(GAUSSIAN)
    assert (refused.value.status, refused.value.type) == (401, "unauthenticated")
    with epsilond.Client(guarded.url, bearer_key=keys["submit"][0]) as client:
        job = client.solve(GAUSSIAN)
        assert job["status"] == "succeeded"
        assert list(client.events(job))[-1].kind == "job"
        assert len(list(client.noise(job, dimensions=2))) == GAUSSIAN["n"]
    monkeypatch.setenv("EPSILOND_BEARER_KEY", keys["read"][0])
    with epsilond.Client(guarded.url) as client:
        assert client.get(job)["id"] == job["id"]
        with pytest.raises(epsilond.Problem) as refused:
            client.solve(GAUSSIAN)
    assert refused.value.type == "insufficient-scope"


def test_the_page_asks_for_a_key_once(guarded, keys, tmp_path):
    browser = Browser(guarded, tmp_path / "profile")
    try:
        browser.open("#/load")
        browser.one("#key-dialog[open]")
        assert len(browser.all("#key-dialog")) == 1  # although several requests were refused
        browser.one("#key").send_keys("epsk_wrong")
        browser.one("#key-dialog .primary").click()
        browser.wait(lambda: "does not know" in browser.text("#key-dialog"))
        browser.one("#key").send_keys(keys["admin"][0])
        browser.one("#key-dialog .primary").click()
        browser.wait(lambda: not browser.all("#key-dialog"))
        job = requests.post(guarded.url + "/v1/jobs?wait=60", json=GAUSSIAN, headers=bearer(keys["submit"][0]),
                            timeout=100).json()
        browser.run("location.hash = arguments[0]", f"#/jobs/{job['id']}")
        browser.wait(lambda: "ucceeded" in browser.text("#state"))
        browser.wait(lambda: [link for link in browser.all("a.button") if link.text == "JSON"])[0].click()
        browser.wait(lambda: job["id"] in browser.run("return document.body.innerText"))
    finally:
        browser.quit()


def test_the_page_shows_what_a_key_may_use(launch, tmp_path):
    """A key sees its own quotas, and one of scope admin those of all."""
    lines = {"one": draw_key("--quota", "streams=3,bytes=1MiB"), "admin": draw_key("--scope", "admin")}
    server = launch("--key-lines", ",".join(line for _, line in lines.values()))
    job = requests.post(server.url + "/v1/jobs?wait=60", json=GAUSSIAN, headers=bearer(lines["one"][0]), timeout=100)
    assert job.status_code == 200
    (mine,) = requests.get(server.url + "/v1/usage", headers=bearer(lines["one"][0]), timeout=60).json()["keys"]
    browser = Browser(server, tmp_path / "profile")
    try:
        browser.open("#/load")
        browser.one("#key").send_keys(lines["one"][0])
        browser.one("#key-dialog .primary").click()
        browser.wait(lambda: browser.all("#usage"))
        rows = {row.text.split("\n")[0]: row.text for row in browser.all("#usage tbody tr")}
        assert mine["id"] in browser.text("#usage caption")
        assert len(rows) == 5 and "Open streams 3 0 3" in rows, rows
        used = mine["quotas"]["bytes"]["used"] / 1024
        assert f"Kept 1 MiB {used:.3g} KiB {float(f'{1024 - used:.3g}'):g} KiB" in rows, rows
        browser.run("sessionStorage.setItem('key', arguments[0])", lines["admin"][0])
        browser.run("location.reload()")
        browser.wait(lambda: "What each key may use" in browser.text("#usage caption"))
        text = browser.text("#usage")
        assert all(line.split()[0] in text for _, line in lines.values())
    finally:
        browser.quit()


def test_the_page_shows_no_quotas_without_keys(launch, tmp_path):
    browser = Browser(launch(), tmp_path / "profile")
    try:
        browser.open("#/load")
        browser.wait(lambda: "Accountants" in browser.text("main"))
        assert not browser.all("#usage") and "Quotas" not in browser.text("main")
    finally:
        browser.quit()
