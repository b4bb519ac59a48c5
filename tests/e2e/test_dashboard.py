"""
The dashboard: what the server sends of it, and, in a browser, that a job can be submitted, followed and read by it, with
the numbers that the API gives.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import contextlib
import json
import re
import shlex

import pytest
import requests
import yaml
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.keys import Keys

from browser import Browser, browser, chromium, host  # noqa: F401
from conftest import DP_SGD, ENDLESS, GAUSSIAN, ROOT, Server, check_problem, until

CONTRACT = yaml.safe_load((ROOT / "api" / "openapi.yaml").read_text())
SCHEMAS = CONTRACT["components"]["schemas"]
FOLDER = ROOT / "server" / "dashboard"
FILES = sorted(path.name for path in FOLDER.iterdir() if path.name != "index.html")
FROM_DEBIAN = ["chart.min.js", "chart.licence.txt"]
MADE = ["members.js"]  # by the service, from the library's table of members
TYPES = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml",
         "txt": "text/plain; charset=utf-8", "html": "text/html; charset=utf-8"}
BANDS = {"n": 32, "matrix": {"family": "square_root", "bands": 4}, "sampling": {"scheme": "cyclic_poisson", "p": 0.1, "groups": 4},
         "noise_multiplier": 1.0, "delta": 1e-6}
PHASES = json.loads((ROOT / "api" / "examples" / "warm_up_and_fine_tunings.json").read_text())

# ---------------------------------------------------------------- what the server sends


def check_headers(answer, kind):
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == TYPES[kind]
    assert answer.headers["Cache-Control"] == "no-cache"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    policy = dict(part.split(" ", 1) for part in answer.headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'" and policy["frame-ancestors"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert "unsafe" not in answer.headers["Content-Security-Policy"]


@pytest.mark.sanitized
def test_the_page_is_served(server):
    answer = server.get("/")
    check_headers(answer, "html")
    assert answer.content == (FOLDER / "index.html").read_bytes()


@pytest.mark.sanitized
@pytest.mark.parametrize("name", FILES)
def test_each_file_is_served(server, name):
    answer = server.get(f"/dashboard/{name}")
    check_headers(answer, name.rsplit(".", 1)[1])
    assert answer.content == (FOLDER / name).read_bytes()


@pytest.mark.sanitized
def test_the_charts_are_debians_with_their_licence(server):
    script, licence = (server.get(f"/dashboard/{name}") for name in FROM_DEBIAN)
    check_headers(script, "js")
    check_headers(licence, "txt")
    assert "Chart.js" in script.text[:200] and "MIT" in script.text[:200]
    assert "Permission is hereby granted" in licence.text


def members_of(server):
    """The library's table of members, as the page has it."""
    answer = server.get("/dashboard/members.js")
    check_headers(answer, "js")
    return json.loads(re.fullmatch(r"export const members = (\[.*\]);\n", answer.text)[1])


CHOICES = {"/matrix/family": "Matrix", "/sampling/scheme": "Sampling", "/accountant/method": "Tuning", "/workload/type": "Workload"}


def resolved(schema):
    """With what it refers to, and of alternatives the one that is an object."""
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema and "discriminator" not in schema:
            schema = next((one for one in schema[several] if "$ref" in one), schema[several][0]) | schema
    name = schema.get("$ref", "").rsplit("/", 1)[-1]
    return resolved(SCHEMAS[name]) | schema if name else schema


def described(pointer, variants):
    """What the contract says of a member: once, or once for each of these variants of its object."""
    first, *rest = pointer[1:].split("/")
    if not rest:
        return [resolved(SCHEMAS["JobRequest"]["properties"][first])]
    choice = next(choice for choice in CHOICES if choice.startswith(f"/{first}/"))
    found = []
    for variant, reference in SCHEMAS[CHOICES[choice]]["discriminator"]["mapping"].items():
        if variants is None or variant in variants:
            schema = resolved({"$ref": reference})
            for name in rest:
                schema = resolved(schema["properties"][name])
            found.append(schema)
    return found


def range_of(schema):
    """With its brackets, as the service's messages write it; None: it has no upper end."""
    if not schema.keys() & {"maximum", "exclusiveMaximum"}:
        return None
    least = ("(", schema["exclusiveMinimum"]) if "exclusiveMinimum" in schema else ("[", schema["minimum"])
    return *least, *((schema["exclusiveMaximum"], ")") if "exclusiveMaximum" in schema else (schema["maximum"], "]"))


@pytest.mark.sanitized
def test_the_table_behind_the_form_is_the_contract(server):
    """The members and which variants have them, their names, defaults and ranges."""
    table = members_of(server)
    for choice, schema in CHOICES.items():
        prefix, mapping = choice[:choice.rindex("/") + 1], SCHEMAS[schema]["discriminator"]["mapping"]
        assert next(row["names"] for row in table if row["pointer"] == choice) == list(mapping)
        for variant, reference in mapping.items():
            there = {row["pointer"][len(prefix):].split("/")[0] for row in table if row["pointer"].startswith(prefix)
                     and ("of" not in row or row["of"] == choice and variant in row["variants"])}
            assert there == set(SCHEMAS[reference.rsplit("/", 1)[1]]["properties"]), (variant, there)
    assert {row["pointer"].split("/")[1] for row in table} == set(SCHEMAS["JobRequest"]["properties"])
    ranges = defaults = 0
    for row in table:
        for schema in described(row["pointer"], row.get("variants")):
            if row["pointer"] not in CHOICES and row["type"] == "name":
                assert row["names"] == [name for name in schema["enum"] if name], row
            if "default" in schema and row["pointer"] != "/matrix/decoder":  # that of its family
                assert schema["default"] == row["initial"], (row, schema)
                defaults += 1
            if "range" in row:
                opened, least, most, closed = re.match(r"([\[(])(\S+), (\S+)([\])])", row["range"]).groups()
                assert (opened, float(least), float(most), closed) == range_of(schema), (row, schema)
                ranges += 1
            elif row["type"] == "real":
                assert range_of(schema) is None, (row, schema)
    assert ranges > 15 and defaults > 5


@pytest.mark.sanitized
@pytest.mark.parametrize("path", ["/", "/dashboard/main.js", "/dashboard/members.js"])
def test_what_a_browser_has_is_not_sent_again(server, path):
    tag = server.get(path).headers["ETag"]
    again = server.get(path, headers={"If-None-Match": tag})
    assert again.status_code == 304 and not again.content and again.headers["ETag"] == tag
    assert "Content-Security-Policy" in again.headers
    assert server.get(path, headers={"If-None-Match": '"other"'}).status_code == 200
    assert server.request("HEAD", path).headers["ETag"] == tag


@pytest.mark.sanitized
def test_nothing_else_is_served(server):
    for name in ("index.html.js", "nothing.js", "..%2Fmain.c", "main.JS"):
        check_problem(server.get(f"/dashboard/{name}"), 404, "not-found")
    check_problem(server.get("/dashboard/"), 404, "not-found")
    check_problem(server.get("/", headers={"Accept": "application/json"}), 406, "not-acceptable")
    check_problem(server.request("POST", "/"), 405, "method")
    check_problem(server.get("/?a=b"), 422, "invalid-job")


def test_the_page_needs_nothing_from_elsewhere():
    """No address of another site, no script or style within the page, and every file it names is there."""
    for name in ["index.html", *FILES]:
        text = (FOLDER / name).read_text().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"(https?:)?//[a-z0-9]+\.[a-z]", text), name
        for imported in re.findall(r"from '\./([^']+)'", text):
            assert imported in FILES + MADE, (name, imported)
    page = (FOLDER / "index.html").read_text()
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?![^>]* src=)", page)
    for named in re.findall(r'(?:src|href)="/dashboard/([^"]+)"', page):
        assert named in FILES + FROM_DEBIAN
    assert re.search(r'<html lang="en">', page) and 'name="viewport"' in page


# ---------------------------------------------------------------- in a browser


def row_of(browser, job_id):
    return browser.one(f'#jobs tr[data-id="{job_id}"]')


def test_a_job_from_the_form_is_seen_to_finish(browser, host):
    browser.open("#/new")
    browser.run("window.loadedOnce = true")
    browser.enter("/n", "32")
    browser.enter("/sampling/scheme", "cyclic_poisson")
    browser.enter("/sampling/p", "0.1")
    browser.enter("/sampling/groups", "4")
    browser.enter("/matrix/family", "square_root")
    browser.enter("/matrix/bands", "4")
    browser.enter("/label", "from the form")
    browser.screenshot("form")
    browser.one("#submit").click()
    value = float(browser.one("#answer").get_attribute("data-value"))
    job_id = browser.run("return location.hash").rsplit("/", 1)[1]
    document = host.get(f"/v1/jobs/{job_id}").json()
    assert document["label"] == "from the form"
    assert document["job"] == dict(host.solve(BANDS)["job"], label="from the form")
    assert value == document["result"]["epsilon"]
    shown = float(browser.text("#answer").split("=")[1])
    assert value <= shown <= value * (1 + 1e-4)  # five figures, rounded up
    assert browser.run("return window.loadedOnce") is True


def test_a_running_job_is_followed_without_a_reload(browser, host):
    """Queued by the API while the page is open: it appears, runs, and is canceled by the page's button."""
    browser.open("#/")
    browser.run("window.loadedOnce = true")
    job_id = host.post(dict(ENDLESS, label="endless")).json()["id"]
    row = row_of(browser, job_id)
    browser.wait(lambda: "running" in row.text)
    row.find_element("css selector", "a").click()
    browser.wait(lambda: "running" in browser.text("#state"))
    browser.one("progress")
    browser.one("#cancel").click()
    browser.wait(lambda: "canceled" in browser.text("#state"))
    assert host.get(f"/v1/jobs/{job_id}").json()["status"] == "canceled"
    browser.wait(lambda: "canceled" in browser.text("#announcer"))
    browser.one("#nav-jobs").click()
    browser.wait(lambda: "canceled" in row_of(browser, job_id).text)
    assert browser.run("return window.loadedOnce") is True


def test_a_list_that_does_not_change_costs_304s(browser, host):
    """Every two seconds, with If-None-Match."""
    series = 'epsilond_http_requests_total{route="GET /v1/jobs",status="304"}'

    def unchanged():
        return sum(float(line.rsplit(" ", 1)[1]) for line in host.get("/metrics").text.splitlines() if line.startswith(series))
    host.solve(GAUSSIAN)
    browser.open("#/")
    browser.one("#jobs tbody tr")
    before = unchanged()
    until(lambda: unchanged() >= before + 2)


def test_the_charts_hold_the_numbers_of_the_api(browser, host):
    document = host.solve(BANDS)
    browser.open(f"#/jobs/{document['id']}")
    points = host.get(document["links"]["curve"]).json()["points"]
    lines = browser.chart("curve")
    assert lines["delta (the larger)"] == [[point["epsilon"], point["delta"]] for point in points]
    assert lines["remove"] == [[point["epsilon"], point["remove"]] for point in points]
    assert lines["add"] == [[point["epsilon"], point["add"]] for point in points]
    assert lines["this job"] == [[document["result"]["epsilon"], 1e-6]]
    variance = host.get(document["links"]["error"]).json()["variance"]
    assert browser.chart("error")["variance"] == [[step, value] for step, value in enumerate(variance)]
    rows = browser.all("#error-place table tbody tr")
    assert len(rows) == len(variance)


def test_the_heat_map_is_the_matrix(browser, host):
    document = host.solve(BANDS)
    browser.open(f"#/jobs/{document['id']}")
    canvas = browser.one("#heat")
    column = host.get(document["links"]["matrix"]).json()["coefficients"]
    assert int(canvas.get_attribute("width")) == int(canvas.get_attribute("height")) == 32
    pixels = browser.run("""const c = arguments[0].getContext('2d');
        return [[5, 5], [5, 2], [5, 1], [2, 5]].map(([row, col]) => [...c.getImageData(col, row, 1, 1).data])""", canvas)
    diagonal, last_band, outside, above = pixels
    assert diagonal == [0x17, 0x4a, 0x9c, 255] and outside == above == [255, 255, 255, 255]
    share = (column[3] / column[0]) ** 0.5
    assert last_band[0] == pytest.approx(255 + share * (0x17 - 255), abs=1)
    canvas.send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
    assert float(browser.text("#entry").split("=")[1]) == pytest.approx(column[1], rel=1e-6)
    noise = host.get(document["links"]["matrix"] + "?part=noise").json()["coefficients"]
    browser.run("const part = document.getElementById('part'); part.value = 'noise'; part.dispatchEvent(new Event('change'))")
    browser.wait(lambda: "C⁻¹" in browser.one("#heat").get_attribute("aria-label"))
    browser.one("#heat").send_keys(Keys.ARROW_DOWN)
    assert float(browser.text("#entry").split("=")[1]) == pytest.approx(noise[1], rel=1e-6)


def test_the_page_of_a_job_says_all_of_its_result(browser, host):
    document = host.solve(dict(BANDS, label="<b>all</b>"))
    result = document["result"]
    browser.open(f"#/jobs/{document['id']}")
    browser.chart("curve")
    assert browser.text("h1") == "<b>all</b>"  # as text
    assert "Epsilon at delta 1e-6, sigma 1, 32 steps, square_root 4 under cyclic_poisson" in browser.text("#state")
    assert [item.text for item in browser.all("#assumptions li")] == result["assumptions"]
    assert [item.text for item in browser.all("#hints li")] == result["hints"]
    assert "Proven" in browser.text("#guarantee")
    assert len(browser.all("#candidates tbody tr")) == len(result["candidates"])
    text = browser.text("main")
    for value in (result["bracket"]["lower"], result["bracket"]["upper"], result["factorization"]["id"], result["sensitivity"]["rule"]):
        assert str(value) in text
    assert len(browser.all("#caches li")) == 3
    assert json.loads(browser.text("#job-json")) == document["job"]
    browser.screenshot("job")


def test_errors_stand_at_their_fields(browser, host):
    browser.open("#/new")
    browser.enter("/n", "many")
    browser.enter("/noise_multiplier", "-1")
    browser.enter("/sampling/p", "2")
    browser.one("#submit").click()
    browser.one(".summary li")
    refused = host.post({"noise_multiplier": -1, "delta": 1e-6, "n": "many", "sampling": {"scheme": "poisson", "p": 2},
                         "matrix": {"family": "identity"}}).json()
    assert len(refused["errors"]) == 3 == len(browser.all(".summary li"))
    for error in refused["errors"]:
        entry = browser.field(error["pointer"])
        assert entry.get_attribute("aria-invalid") == "true"
        described = entry.get_attribute("aria-describedby").split()
        assert [browser.text(f"#{name}") for name in described][1] == error["detail"]
    assert browser.focused().get_attribute("name") == "/noise_multiplier"  # the first of them
    browser.screenshot("form-errors")
    for pointer, value in (("/n", "50"), ("/noise_multiplier", "1"), ("/sampling/p", "0.5")):
        browser.enter(pointer, value)
    browser.one("#submit").click()
    browser.one("#answer")


def test_errors_of_folded_and_of_no_fields_are_seen(browser):
    browser.open("#/new")
    browser.run("document.querySelectorAll('#job-form details').forEach((one) => { one.open = true; })")
    browser.enter("/accountant/tolerance", "7")
    browser.run("document.querySelectorAll('#job-form details').forEach((one) => { one.open = false; })")
    browser.one("#submit").click()
    browser.one(".summary li")
    assert browser.field("/accountant/tolerance").is_displayed()
    browser.open("#/new")
    browser.enter("/noise_multiplier", "")
    browser.one("#submit").click()
    assert "exactly two" in browser.one(".summary li").text


def test_the_command_does_what_the_form_does(browser, host):
    """As a shell splits it: the body, posted, is the job that the form submits; digits are those that were written."""
    browser.open("#/new")
    browser.enter("@unknown", "noise_multiplier")
    browser.enter("/epsilon", "2.50")
    browser.enter("/delta", "1e-5")
    browser.enter("/n", "100")
    browser.enter("/sampling/scheme", "none")
    browser.enter("/label", "it's")
    words = shlex.split(browser.text("#curl"))
    assert words[:2] == ["curl", "--json"] and words[3] == host.url + "/v1/jobs"
    assert '"epsilon": 2.50' in words[2]
    assert json.loads(words[2]) == {"epsilon": 2.5, "delta": 1e-5, "n": 100, "label": "it's", "sampling": {"scheme": "none"},
                                    "matrix": {"family": "identity"}}
    document = requests.post(words[3] + "?wait=60", data=words[2], headers={"Content-Type": "application/json"}, timeout=120).json()
    assert document["status"] == "succeeded"
    browser.one("#submit").click()
    assert float(browser.one("#answer").get_attribute("data-value")) == document["result"]["noise_multiplier"]


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "api" / "examples").glob("*.json")))
def test_the_form_takes_up_every_example(browser, host, name):
    """A job's page offers it to the form again: what the form then builds is the same job."""
    document = host.solve(json.loads((ROOT / "api" / "examples" / f"{name}.json").read_text()))
    browser.open(f"#/new?from={document['id']}")
    job = document["job"]
    member, value = ("@length", "phases") if "phases" in job else ("@unknown", "n") if job["n"] == "max" else ("/n", str(job["n"]))
    browser.wait(lambda: browser.field(member).get_attribute("value") == value)
    groups = [group for group in browser.all("#job-form fieldset") if group.is_displayed()]
    assert all(any(field.is_displayed() for field in group.find_elements("css selector", ".field")) for group in groups)
    built = json.loads(shlex.split(browser.text("#curl"))[2])
    again = host.post(built)
    assert again.status_code == 200, (built, again.text)
    assert again.json()["job"] == document["job"]


def test_the_form_has_every_member_of_the_contract(browser, host):
    """Each property of each family, scheme, accountant and workload has a field, which shows when that one is chosen."""
    browser.open("#/new")
    shown_ever = set()
    for choice, schema in CHOICES.items():
        prefix = choice[:choice.rindex("/") + 1]
        mapping = SCHEMAS[schema]["discriminator"]["mapping"]
        options = [option.get_attribute("value") for option in browser.field(choice).find_elements("css selector", "option")]
        assert sorted(options) == sorted(mapping)
        for name, reference in mapping.items():
            browser.enter(choice, name)
            shown = set()
            for rate in ("p", "batch"):
                for given in ("buffers", "lists"):
                    shown |= set(browser.run("""
                        for (const [name, value] of [['@rate', arguments[0]], ['@blt', arguments[1]]]) {
                          document.querySelector(`[name="${name}"]`).value = value;
                        }
                        document.getElementById('job-form').dispatchEvent(new Event('input'));
                        return [...document.querySelectorAll('#job-form .field:not([hidden]) [name]')].map((entry) => entry.name)""",
                        rate, given))
            members = {pointer[len(prefix):].split("/")[0] for pointer in shown if pointer.startswith(prefix)}
            described = SCHEMAS[reference.rsplit("/", 1)[1]]["properties"]
            assert members == set(described), (name, members ^ set(described))
            shown_ever |= shown
        browser.enter(choice, next(iter(options)))
    browser.enter("@unknown", "delta")
    every = set(browser.run("return [...document.querySelectorAll('#job-form [name]')].map((entry) => entry.name)"))
    top = {pointer.split("/")[1] for pointer in every if pointer.startswith("/")}
    assert top | {"curve"} == set(SCHEMAS["JobRequest"]["properties"])
    assert {pointer for pointer in every if pointer.startswith("/")} == {row["pointer"] for row in members_of(host)} - {"/curve"}
    tolerance = browser.run("return document.getElementById('field-accountant-tolerance-help').textContent")
    assert tolerance.endswith("Must lie in [1e-9, 0.1]. Default: 0.001.")


def test_every_field_has_a_label_and_help(browser):
    browser.open("#/new")
    for entry in browser.all("#job-form [name]"):
        name, number = entry.get_attribute("name"), entry.get_attribute("id")
        assert len(browser.all(f'label[for="{number}"]')) == 1, name
        helps = [browser.text(f"#{described}") for described in entry.get_attribute("aria-describedby").split()]
        assert len(helps[0]) > 10, name
    ids = browser.run("return [...document.querySelectorAll('[id]')].map((element) => element.id)")
    assert len(ids) == len(set(ids))


def test_every_view_can_be_walked_by_ear(browser, host):
    """One main, one first heading, every control named, headings in order, one place that speaks."""
    document, phases = host.solve(BANDS), host.solve(PHASES)
    sweep = host.post({"base": DP_SGD, "grid": {"/noise_multiplier": [1, 2]}}, "/v1/sweeps").json()
    for view in ("#/", "#/new", f"#/jobs/{document['id']}", f"#/jobs/{phases['id']}", f"#/compare?ids={document['id']},{phases['id']}",
                 "#/load", "#/sweeps", f"#/sweeps/{sweep['id']}", "#/plans", "#/nowhere"):
        browser.open(view)
        if "jobs/" in view:
            for name in ("error", "curve"):
                browser.chart(name)
            browser.one("#heat")
            browser.one("#statement h3")
        if phases["id"] in view and "jobs/" in view:
            browser.one("#spend-ask").click()
            browser.chart("spend")
        assert len(browser.all("main")) == len(browser.all("h1")) == 1
        levels = browser.run("return [...document.querySelectorAll('h1, h2, h3')].map((one) => Number(one.tagName[1]))")
        assert levels[0] == 1 and all(after <= before + 1 for before, after in zip(levels, levels[1:]))
        browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        for entry in browser.all("main button, main a, main input, main select, main textarea, canvas, table"):
            assert entry.accessible_name or not entry.is_displayed(), (view, entry.get_attribute("outerHTML")[:300])
        assert len(browser.all("[aria-live]:not(output)")) == 1
        assert len(browser.all("nav [aria-current]")) == (0 if view == "#/nowhere" else 1)


def press(browser, *keys):
    for key in keys:
        browser.focused().send_keys(key)


def tab_to(browser, condition):
    for _ in range(200):
        press(browser, Keys.TAB)
        with contextlib.suppress(StaleElementReferenceException):  # the page replaced it meanwhile
            if condition(browser.focused()):
                return browser.focused()
    raise AssertionError("the keyboard does not come there")


def test_the_keyboard_alone_is_enough(browser, host):
    """Skip link, to the form, a job, its page, and deleting it, without a pointer."""
    browser.open("#/")
    press(browser, Keys.TAB)
    assert browser.focused().get_attribute("id") == "skip"
    press(browser, Keys.ENTER)
    assert browser.focused().get_attribute("id") == "main"
    tab_to(browser, lambda entry: entry.get_attribute("href") == host.url + "/#/new")
    press(browser, Keys.ENTER)
    browser.wait(lambda: browser.focused().tag_name == "h1" and browser.focused().text == "New job")
    entry = tab_to(browser, lambda element: element.get_attribute("name") == "/n")
    assert browser.run("return getComputedStyle(arguments[0]).outlineStyle", entry) == "solid"
    entry.send_keys(Keys.CONTROL, "a")
    entry.send_keys("77", Keys.ENTER)
    browser.one("#answer")
    browser.wait(lambda: browser.focused().tag_name == "h1")
    job_id = browser.run("return location.hash").rsplit("/", 1)[1]
    assert host.get(f"/v1/jobs/{job_id}").json()["job"]["n"] == 77
    tab_to(browser, lambda element: element.get_attribute("id") == "delete")
    press(browser, Keys.ENTER)
    tab_to(browser, lambda element: element.get_attribute("id") == "delete-yes")
    press(browser, Keys.ENTER)
    browser.wait(lambda: browser.text("h1") == "Jobs")
    assert host.get(f"/v1/jobs/{job_id}").status_code == 404


def test_filters_and_pages(browser, host):
    for number in range(52):
        host.solve(dict(GAUSSIAN, n=100 + number, label="many"))
    host.solve(dict(GAUSSIAN, n=99, label="one"))
    browser.open("#/?label=many")
    browser.wait(lambda: len(browser.all("#jobs tbody tr")) == 50)
    browser.driver.find_element("link text", "Older").click()
    browser.wait(lambda: len(browser.all("#jobs tbody tr")) == 2)
    browser.driver.find_element("link text", "Newest").click()
    browser.wait(lambda: len(browser.all("#jobs tbody tr")) == 50)
    browser.one("#filter-label").clear()
    browser.one("#filter-label").send_keys("one", Keys.ENTER)
    browser.wait(lambda: [row.find_element("css selector", "a").text for row in browser.all("#jobs tbody tr")] == ["one"])
    browser.enter("status", "failed")
    browser.one("#no-jobs")


def test_up_to_five_jobs_are_compared(browser, host):
    documents = [host.solve(dict(DP_SGD, n=10 + number, label=f"compared {number}")) for number in range(6)]
    browser.open("#/")
    for document in documents[:5]:
        row_of(browser, document["id"]).find_element("css selector", "input").click()
    assert not row_of(browser, documents[5]["id"]).find_element("css selector", "input").is_enabled()
    browser.one("#compare").click()
    lines = browser.chart("curves")
    errors = browser.chart("errors-per-step")
    for document in documents[:5]:
        points = host.get(document["links"]["curve"]).json()["points"]
        assert lines[document["label"]] == [[point["epsilon"], point["delta"]] for point in points]
        variance = host.get(document["links"]["error"]).json()["variance"]
        assert [value for _, value in errors[document["label"]]] == variance
    assert len(lines) == 5 and len(browser.all("#comparison thead th")) == 5
    browser.screenshot("compare")


def test_a_sweep_is_started_followed_and_sorted(browser, host):
    """From the form: its table has every point, and its chart the points that the API gives."""
    browser.open("#/sweeps")
    grid = {"/noise_multiplier": [1.5, 0.7, 1.0], "/sampling/p": [0.01, 0.02]}
    for number, value in (("sweep-base", {"n": 40, "sampling": {"scheme": "poisson"}, "delta": 1e-6}), ("sweep-grid", grid)):
        browser.one(f"#{number}").clear()
        browser.one(f"#{number}").send_keys(json.dumps(value))
    browser.one("#sweep-label").send_keys("grid")
    browser.one("#sweep-submit").click()
    browser.wait(lambda: "succeeded" in browser.text("#state"))
    browser.wait(lambda: len(browser.all("#points tbody tr")) == 6)
    sweep_id = browser.run("return location.hash").rsplit("/", 1)[1]
    points = host.get(f"/v1/sweeps/{sweep_id}/points").json()["items"]
    browser.wait(lambda: browser.run("return window.Chart.getChart('sweep-chart')?.data.datasets.flatMap((set) => set.data).length") == 6)
    lines = browser.chart("sweep-chart")
    for p in grid["/sampling/p"]:
        assert lines[f"/sampling/p {p}"] == sorted([point["/noise_multiplier"], point["epsilon"]] for point in points
                                                   if point["/sampling/p"] == p)

    def epsilons():
        return [float(row.find_elements("css selector", "td")[2].text) for row in browser.all("#points tbody tr")]
    assert epsilons() != sorted(epsilons())
    heading = browser.one("#points thead th:nth-child(3)")
    heading.find_element("css selector", "button").click()
    assert epsilons() == sorted(epsilons()) and heading.get_attribute("aria-sort") == "ascending"
    heading.find_element("css selector", "button").click()
    assert epsilons() == sorted(epsilons(), reverse=True) and heading.get_attribute("aria-sort") == "descending"
    browser.screenshot("sweep")
    assert json.loads(browser.text("#asked pre"))["grid"] == grid
    assert browser.saved("Save as CSV", "sweep.csv") == host.get(f"/v1/sweeps/{sweep_id}/points", headers={"Accept": "text/csv"}).text
    browser.one("#nav-sweeps").click()
    assert "6 of 6" in browser.one(f'#sweeps tr[data-id="{sweep_id}"]').text
    browser.enter("status", "failed")
    browser.one(".empty")
    browser.open("#/sweeps?label=grid")
    row = browser.one(f'#sweeps tr[data-id="{sweep_id}"]')
    assert "6 of 6" in row.text
    row.find_element("css selector", "a").click()
    browser.one("#delete").click()
    browser.one("#delete-yes").click()
    browser.wait(lambda: browser.text("h1") == "Sweeps")
    assert host.get(f"/v1/sweeps/{sweep_id}").status_code == 404


def test_what_is_wrong_with_a_sweep_stands_at_its_text(browser):
    browser.open("#/sweeps")
    for number, value in (("sweep-base", '{"n": 0}'), ("sweep-grid", '{"/nowhere": [1]}')):
        browser.one(f"#{number}").clear()
        browser.one(f"#{number}").send_keys(value)
    browser.one("#sweep-submit").click()
    browser.one(".summary h2")
    assert browser.all("[aria-invalid]")
    assert "nowhere" in browser.text("#sweep-grid-error")
    browser.one("#sweep-grid").send_keys("{")
    browser.one("#sweep-submit").click()
    browser.wait(lambda: "JSON" in browser.text(".summary"))
    assert browser.text("#sweep-grid-error") and not browser.text("#sweep-base-error")


def test_a_plan_is_started_and_ranked(browser, host):
    """From the form: the table has every candidate, best first, the chart their errors, and a row can be submitted."""
    browser.open("#/plans")
    for member, value in (("epochs", "4"), ("batch_size", "100"), ("dataset_size", "1000"), ("max_bands", "4")):
        browser.enter(member, value)
    browser.one("#plan-label").send_keys("small")
    for name in ("identity", "square_root", "balls_in_bins", "poisson", "none"):
        browser.one(f'#plan-form input[value="{name}"]').click()
    browser.one("#plan-submit").click()
    browser.wait(lambda: "succeeded" in browser.text("#state"))
    plan = host.get("/v1/plans/" + browser.run("return location.hash").rsplit("/", 1)[1]).json()
    browser.wait(lambda: len(browser.all("#candidates tbody tr")) == len(plan["candidates"]) > 1)
    rows = [[cell.text for cell in row.find_elements("css selector", "td")] for row in browser.all("#candidates tbody tr")]
    assert [row[1].split()[0].rstrip(",") for row in rows] == [one["family"] for one in plan["candidates"]] and rows[0][0] == "1"
    assert [float(row[2]) for row in rows if row[0] != "–"] == pytest.approx(
        [one["error"]["mean_squared"] for one in plan["candidates"] if one["rank"]], rel=1e-4)
    assert len(browser.all("#best tbody tr")) == len(plan["best"])
    assert f"a gain of {plan['best'][0]['gain']:.4g}" in browser.text("#gain")
    facts = browser.run("return [...document.querySelectorAll('.facts dt')].map((one) => [one.textContent, one.nextSibling.textContent])")
    assert {("Epsilon", "4"), ("Delta", "1e-5"), ("Data set", "1000 examples")} <= {tuple(pair) for pair in facts}
    lines = browser.chart("plan-chart")
    assert sorted(point for line in lines.values() for point in line) == sorted(
        [one["buffers"] + 1, one["error"]["mean_squared"]] for one in plan["candidates"] if one["error"])
    asked = json.loads(browser.text("#asked pre"))
    assert (asked["epochs"], asked["max_bands"], plan["label"]) == (4, 4, "small")
    browser.screenshot("plan")
    browser.one("#candidates tbody button").click()
    value = float(browser.one("#answer").get_attribute("data-value"))
    assert value == plan["candidates"][0]["noise_multiplier"]


def test_the_forms_of_plans_and_sweeps_have_every_member_of_the_contract(browser):
    browser.open("#/plans")
    members = set(browser.run("return [...document.querySelectorAll('#plan-form [name]')].map((entry) => entry.name)"))
    assert members == set(SCHEMAS["PlanRequest"]["properties"])
    browser.open("#/sweeps")
    members = set(browser.run("return [...document.querySelectorAll('#sweep-form :is(textarea, input)')].map((entry) => entry.id.slice(6))"))
    assert members == set(SCHEMAS["SweepRequest"]["properties"])


def test_a_plan_for_another_workload(browser, host):
    browser.open("#/plans")
    for member, value in (("epochs", ""), ("n", "20, 40"), ("batch_size", "100"), ("dataset_size", "1000"),
                          ("workload", '{"type": "momentum", "momentum": 0.9}')):
        browser.enter(member, value)
    for name in ("identity", "none"):
        browser.one(f'#plan-form input[value="{name}"]').click()
    browser.one("#plan-submit").click()
    browser.wait(lambda: "succeeded" in browser.text("#state"))
    plan = host.get("/v1/plans/" + browser.run("return location.hash").rsplit("/", 1)[1]).json()
    assert (plan["n"], plan["workload"]["momentum"]) == ([20, 40], 0.9)
    assert {one["job"]["workload"]["momentum"] for one in plan["candidates"]} == {0.9}


def test_a_plan_of_several_batch_sizes_is_drawn_as_it_is_ranked(browser, host):
    """By the average gradient, in a colour and a mark for each family; a list may end with a comma."""
    browser.open("#/plans")
    for member, value in (("epochs", "4,"), ("batch_size", "50, 100"), ("dataset_size", "500"), ("max_bands", "")):
        browser.enter(member, value)
    for name in ("none", "poisson"):
        browser.one(f'#plan-form input[value="{name}"]').click()
    browser.one("#plan-submit").click()
    browser.wait(lambda: "succeeded" in browser.text("#state"))
    plan = host.get("/v1/plans/" + browser.run("return location.hash").rsplit("/", 1)[1]).json()
    assert plan["epochs"] == 4
    lines = browser.wait(lambda: len(found := browser.chart("plan-chart")) > 8 and found)
    assert sorted(point for line in lines.values() for point in line) == sorted(
        [one["buffers"] + 1, one["error"]["mean_squared"] / one["batch_size"] ** 2] for one in plan["candidates"] if one["error"])
    looks = browser.run("""return window.Chart.getChart("plan-chart").data.datasets.map((set) => `${set.borderColor} ${set.pointStyle}`)""")
    assert len(set(looks)) == len(looks) == len(lines)
    browser.screenshot("plan-of-sizes")


def test_what_is_wrong_with_a_plan_stands_at_its_field(browser):
    browser.open("#/plans")
    browser.enter("delta", "7")
    browser.enter("dataset_size", "x")
    browser.enter("workload", '{"type": ')
    browser.one("#plan-submit").click()
    browser.wait(lambda: browser.text("#plan-delta-error"))
    assert browser.text("#plan-dataset_size-error") and browser.text("#plan-workload-error")
    assert browser.focused().get_attribute("aria-invalid") == "true"


def test_the_load_of_the_server(browser, host):
    browser.open("#/load")
    first = len(browser.chart("load-chart")["queued"])
    browser.wait(lambda: len(browser.chart("load-chart")["queued"]) > first)
    workers = int(host.metric("epsilond_workers"))
    assert f"of {workers}" in browser.text("#load")
    browser.screenshot("load")


def luminance(colour):
    channels = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("dark", [False, True])
def test_light_and_dark_can_be_read(browser, host, dark):
    """The page follows what the reader prefers, its charts with it, and its text has the contrast of WCAG AA."""
    document = host.solve(BANDS)
    browser.open(f"#/jobs/{document['id']}")
    browser.chart("curve")
    browser.one("#heat")
    before = browser.run("return window.Chart.getChart('curve').data.datasets[0].borderColor")
    browser.dark(dark)
    page = luminance(browser.run("return getComputedStyle(document.body).backgroundColor"))
    assert (page < 0.05) if dark else (page > 0.9)
    for selector in ("h1", "#answer", ".quiet", "main a", ".badge", "dt", "figcaption", "#delete"):
        text = luminance(browser.run("return getComputedStyle(arguments[0]).color", browser.one(selector)))
        assert (max(page, text) + 0.05) / (min(page, text) + 0.05) >= 4.5, selector
    after = browser.run("return window.Chart.getChart('curve').data.datasets[0].borderColor")
    assert (after != before) == dark
    if dark:
        browser.screenshot("job-dark")


def test_a_server_that_goes_away_is_said_and_found_again(launch, tmp_path):
    server = launch("--workers", "1")
    browser = Browser(server, tmp_path / "chromium")
    try:
        browser.open("#/")
        browser.one("#no-jobs")
        port = server.url.rsplit(":", 1)[1]
        server.stop()
        browser.one(".trouble")
        server.start("--listen", f"127.0.0.1:{port}")
        browser.one("#no-jobs")
        assert not browser.all(".trouble")
    finally:
        browser.quit()
