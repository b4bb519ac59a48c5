"""
The files of docker/: what they start is started here, with their arguments and variables, and probed as they probe it.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import contextlib
import json
import os
import re
import socket
import subprocess

import requests
import yaml

from conftest import BINARY, GAUSSIAN, PATIENCE, ROOT

DOCKER = ROOT / "docker"
VARIABLES = set(re.findall(r"\((EPSILOND_[A-Z_]+)\)", subprocess.run([BINARY, "--help"], capture_output=True, text=True,
                                                                     check=True).stdout))


def image():
    """The instructions of the last stage of the Dockerfile."""
    found = {}
    for line in (ROOT / "Dockerfile").read_text().split("FROM ")[-1].splitlines():
        word, _, rest = line.partition(" ")
        if word.isupper():
            found.setdefault(word, []).append(rest)
    return found


@contextlib.contextmanager
def running(arguments, variables, places):
    """Runs the program with the paths of the container replaced, on a free port. Yields its URL."""
    assert set(variables) <= VARIABLES
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for there, here in {**places, "0.0.0.0:8080": f"0.0.0.0:{port}"}.items():
        arguments = [argument.replace(there, str(here)) for argument in arguments]
    process = subprocess.Popen([BINARY, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, **variables})
    try:
        line = process.stdout.readline()
        assert line.startswith("listening on "), process.stderr.read()
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 0


def asks(url, path, host, **arguments):
    return requests.get(url + path, headers={"Host": host, **arguments}, timeout=PATIENCE)


def test_kubernetes(tmp_path):
    service, stateful = yaml.safe_load_all((DOCKER / "kubernetes.yaml").read_text())
    assert (service["kind"], stateful["kind"]) == ("Service", "StatefulSet")
    pod = stateful["spec"]["template"]
    spec, labels = pod["spec"], pod["metadata"]["labels"]
    assert service["spec"]["selector"] == stateful["spec"]["selector"]["matchLabels"] == labels
    assert stateful["spec"]["serviceName"] == service["metadata"]["name"] and stateful["spec"]["replicas"] == 1
    assert spec["enableServiceLinks"] is False  # or EPSILOND_PORT=tcp://... would be a variable of the program
    [container] = spec["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    volumes = [volume["name"] for volume in spec["volumes"]]
    claims = [claim["metadata"]["name"] for claim in stateful["spec"]["volumeClaimTemplates"]]
    assert sorted(mounts) == sorted(volumes + claims)
    assert mounts["data"] in image()["VOLUME"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports[service["spec"]["ports"][0]["targetPort"]] == 8080

    drawn = subprocess.run([BINARY, "key", "new"], capture_output=True, text=True, check=True).stdout.splitlines()
    (tmp_path / "keys").write_text(drawn[-1] + "\n")
    (tmp_path / "keys").chmod(spec["volumes"][volumes.index("keys")]["secret"]["defaultMode"])
    variables = {}
    for variable in container["env"]:
        source = variable.get("valueFrom")
        variables[variable["name"]] = variable["value"] if not source else container["resources"]["limits"][
            source["resourceFieldRef"]["resource"].removeprefix("limits.")]
    places = {mounts["data"]: tmp_path, mounts["keys"]: tmp_path}
    with running(container["args"], variables, places) as url:
        assert (tmp_path / "epsilond.db").exists()
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            get = container[probe]["httpGet"]
            assert ports[get["port"]] == 8080
            assert asks(url, get["path"], "10.42.0.17:8080").status_code == 200  # as the kubelet asks
        assert asks(url, "/v1", "epsilond:8080").status_code == 401  # as a client of the Service does
        assert asks(url, "/v1", "epsilond:8080", Authorization=f"Bearer {drawn[0]}").status_code == 200
        assert asks(url, "/v1", "elsewhere.example").status_code == 403


def test_compose_and_the_image(tmp_path):
    compose = yaml.safe_load((DOCKER / "compose.yaml").read_text())
    service = compose["services"]["epsilond"]
    [mount] = service["volumes"]
    volume, place = mount.split(":")
    assert volume in compose["volumes"] and place in image()["VOLUME"]
    arguments = json.loads(image()["CMD"][0])
    with running(service.get("command", arguments), service["environment"], {place: tmp_path}) as url:
        job = requests.post(url + "/v1/jobs?wait=60", json=GAUSSIAN, headers={"Host": "epsilond:8080"},
                            timeout=PATIENCE).json()
        assert job["status"] == "succeeded"
        check = json.loads(image()["HEALTHCHECK"][0].partition("CMD ")[2])
        ended = subprocess.run([word.replace("http://127.0.0.1:8080", url) for word in check], timeout=PATIENCE)
        assert ended.returncode == 0
    # The next container has the volume.
    with running(service.get("command", arguments), service["environment"], {place: tmp_path}) as url:
        assert requests.get(url + job["links"]["self"], timeout=PATIENCE).json() == job
