"""
The files of docker/: what they start is started here, with their arguments and variables, and probed as they probe it.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import contextlib
import json
import os
import pathlib
import re
import socket
import subprocess

import pytest
import requests
import yaml

from broker import SERVER, Broker
from conftest import BINARY, GAUSSIAN, PATIENCE, ROOT, until

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


# ---------------------------------------------------------------- workers

# What a worker needs of a broker, without one: it waits for it.
NOWHERE = {"EPSILOND_BROKER": "amqp://guest:guest@127.0.0.1:1/"}


@contextlib.contextmanager
def working(arguments, variables, log):
    """Runs a worker, which logs to that file, and stops it."""
    assert set(variables) <= VARIABLES
    with open(log, "w") as file:
        process = subprocess.Popen([BINARY, *arguments], stdout=file, stderr=file, env={**os.environ, **variables})
    try:
        until(lambda: "event=started" in log.read_text() or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        yield log
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == 0


def secrets(tmp_path):
    """What docker/cluster.sh makes, for a broker on this machine."""
    folder = tmp_path / "cluster"
    subprocess.run(["sh", DOCKER / "cluster.sh", folder, "localhost"], check=True)
    assert folder.stat().st_mode & 0o777 == 0o700
    return folder


def variables_of(file):
    return dict(line.split("=", 1) for line in file.read_text().splitlines())


def settings():
    """docker/rabbitmq.conf."""
    lines = (DOCKER / "rabbitmq.conf").read_text().splitlines()
    return dict(line.split(" = ") for line in lines if line and not line.startswith("#"))


def test_the_parts_of_the_cluster_fit(tmp_path):
    compose = yaml.safe_load((DOCKER / "compose.cluster.yaml").read_text())
    services, made = compose["services"], {file.name for file in secrets(tmp_path).iterdir()}
    nodes = {name: service for name, service in services.items() if service["image"].startswith("rabbitmq:")}
    found = settings()
    assert sorted(f"rabbit@{node['hostname']}" for node in nodes.values()) == sorted(
        value for name, value in found.items() if name.startswith("cluster_formation.classic_config.nodes."))
    assert len(nodes) == 3 and len({tuple(node["volumes"]) for node in nodes.values()}) == 3
    files = {**compose["configs"], **compose["secrets"]}
    used = {item["source"] for service in services.values()
            for item in service.get("configs", []) + service.get("secrets", [])}
    assert used == set(files)
    for file in [one["file"] for one in files.values()] + [service["env_file"] for service in services.values()]:
        folder, _, name = file.rpartition("/")
        assert name in made if folder == "cluster" else (DOCKER / name).exists()
    places = {item["target"] for item in nodes["rabbit1"]["configs"] + nodes["rabbit1"]["secrets"]}
    assert {value for value in found.values() if value.startswith("/")} <= places
    for name in ("epsilond", "worker"):
        environment = services[name]["environment"]
        assert set(environment) <= VARIABLES
        assert environment["EPSILOND_BROKER_CA"] in {item["target"] for item in services[name]["configs"]}
    assert nodes["rabbit1"]["networks"]["default"]["aliases"] == ["broker"]
    assert "|| set -- broker" in (DOCKER / "cluster.sh").read_text()
    [limit] = re.findall(r"--max-seconds TIME .*\[(\d+)\] \(", subprocess.run(
        [BINARY, "--help"], capture_output=True, text=True, check=True).stdout)[:1]
    assert int(found["consumer_timeout"]) > 1000 * int(limit)


@pytest.mark.skipif(not SERVER.exists(), reason="needs the package rabbitmq-server")
def test_the_users_of_the_cluster_may_do_what_they_must(tmp_path, launch):
    folder = secrets(tmp_path)
    services = yaml.safe_load((DOCKER / "compose.cluster.yaml").read_text())["services"]
    more = [f"{name} = {value}" for name, value in settings().items()
            if not name.startswith(("listeners.", "ssl_options.", "load_", "cluster_formation."))]
    assert len(more) == 2
    broker = Broker(folder, tls=True, more="\n".join(more) + "\n")
    try:
        def environment(who):
            url = variables_of(folder / f"{who}.env")["EPSILOND_BROKER"]
            return {"EPSILOND_BROKER": url.replace(":5671/", f":{broker.tls}/"),
                    "EPSILOND_BROKER_CA": str(folder / "ca.pem")}
        server = launch("--broker-seconds", "0", env={**os.environ, **environment("server")})
        with working(services["worker"]["command"], environment("worker"), tmp_path / "log") as log:
            until(lambda: "state=welcomes" in log.read_text())
            assert server.solve(GAUSSIAN)["status"] == "succeeded" and "event=answer" in log.read_text()
        monitor = variables_of(folder / "monitor.env")["KEDA_HOST"].split("@")[0].removeprefix("http://")
        url = f"amqps://{monitor}@localhost:{broker.tls}/epsilond"  # who only counts may not answer jobs
        with working(["worker"], {**environment("worker"), "EPSILOND_BROKER": url}, tmp_path / "other") as log:
            until(lambda: "ACCESS_REFUSED" in log.read_text())
    finally:
        broker.close()


def test_workers_in_kubernetes(tmp_path):
    deployment, trusted, scaled = yaml.safe_load_all((DOCKER / "kubernetes.workers.yaml").read_text())
    pod = deployment["spec"]["template"]
    assert deployment["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
    assert "replicas" not in deployment["spec"] and pod["spec"]["enableServiceLinks"] is False
    [container] = pod["spec"]["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert sorted(mounts) == sorted(volume["name"] for volume in pod["spec"]["volumes"])
    folder = secrets(tmp_path)
    made = {name: variables_of(folder / f"{name}.env") for name in ("worker", "monitor")}
    variables = {}
    for variable in container["env"]:
        source = variable.get("valueFrom", {})
        if "secretKeyRef" in source:
            assert source["secretKeyRef"]["key"] in made["worker"]
            variables[variable["name"]] = NOWHERE["EPSILOND_BROKER"]
        elif source:
            name = source["resourceFieldRef"]["resource"].removeprefix("limits.")
            variables[variable["name"]] = container["resources"]["limits"][name]
        else:
            variables[variable["name"]] = variable["value"].replace(mounts["ca"], str(folder))
    with working(container["args"], variables, tmp_path / "log") as log:
        assert "threads=4" in log.read_text()

    [trigger] = scaled["spec"]["triggers"]
    assert scaled["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    assert trigger["authenticationRef"]["name"] == trusted["metadata"]["name"]
    [parameter] = trusted["spec"]["secretTargetRef"]
    assert parameter["parameter"] == "host" and parameter["key"] in made["monitor"]
    [name] = re.findall(r'"(epsilond\.questions\.)%s"', (ROOT / "server/broker/places.c").read_text())
    assert re.search(trigger["metadata"]["queueName"], name + 32 * "0")
    assert trigger["metadata"]["value"] == container["resources"]["limits"]["cpu"]


def test_workers_under_slurm(tmp_path):
    script = (DOCKER / "slurm.sh").read_text()
    assert "#SBATCH --signal=B:TERM@" in script
    configuration = tmp_path / ".config" / "epsilond" / "worker.env"
    configuration.parent.mkdir(parents=True)
    configuration.write_text(f"EPSILOND_BROKER={NOWHERE['EPSILOND_BROKER']}\n")
    environment = {"PATH": f"{pathlib.Path(BINARY).resolve().parent}:{os.environ['PATH']}", "HOME": str(tmp_path),
                   "SLURM_CPUS_PER_TASK": "3"}
    log = tmp_path / "log"
    with open(log, "w") as file:
        process = subprocess.Popen(["bash", DOCKER / "slurm.sh"], stdout=file, stderr=file, env=environment)
    until(lambda: "event=started threads=3" in log.read_text() and "state=gone" in log.read_text())
    process.terminate()  # as Slurm does, to the shell of the batch
    assert process.wait(PATIENCE) == 0 and "event=stopped" in log.read_text()
