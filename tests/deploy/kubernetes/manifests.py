"""Tests deploy/kubernetes: each manifest meets Kubernetes' schema, manifests and container file agree with each other and with the
programs, and the pods run as declared: as their user, without rights, on a file system that they cannot write.

AUTOCFG_BUILD_DIR: the build. `deploy/dependencies.sh --schemas BUILD/kubernetes_schemas` installs the schemas."""
import copy
import functools
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["AUTOCFG_BUILD_DIR"])
HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[2]
SCHEMAS = BUILD / "kubernetes_schemas"
LIMIT_S = 300
LAYERS = ("base", "cpu", "secure")
# An overlay with the component, as docs/install.md shows one.
SECURE = {"resources": ["cpu"], "components": ["secure"]}
SEARCH = ["autocfg", "search", "--coordinator", "autocfg-coordinator:5000", "--insecure", "--model", "gpt2-tiny", "--global-batch", "4", "--seq-len",
          "32", "--max-trials", "1", "--space", "recompute=none", "--json"]
CLIENT = "autocfg-client"  # the label of pods that are not ours
DNS = {"k8s-app": "kube-dns"}


def run(*command, **options):
    options = {"capture_output": True, "text": True, "timeout": LIMIT_S, "check": False, **options}
    return subprocess.run([str(word) for word in command], **options)


def missing():
    """Why manifests cannot be rendered and read here, or None."""
    if not (SCHEMAS / "installed.json").exists() or not shutil.which("node"):
        return f"no schemas of Kubernetes; install them: deploy/dependencies.sh --schemas {SCHEMAS}"
    if not shutil.which("kubectl"):
        return "no kubectl, which renders the manifests"
    if "kustomizeVersion" not in run("kubectl", "version", "--client", "--output", "json").stdout:
        return "this kubectl is too old: its kustomize does not know the field labels"
    return None


def can_mount():
    return os.geteuid() == 0 and shutil.which("unshare") is not None and run("unshare", "-mn", "true").returncode == 0


@functools.cache
def rendered(layer):
    with tempfile.TemporaryDirectory(prefix="autocfg_overlay_") as overlay:
        directory = SOURCE / "deploy/kubernetes" / layer
        if layer == "secure":
            directory = pathlib.Path(overlay).resolve()
            parts = {key: [os.path.relpath(SOURCE / "deploy/kubernetes" / name, directory) for name in names] for key, names in SECURE.items()}
            (directory / "kustomization.yaml").write_text(
                json.dumps({"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", **parts}), encoding="utf-8")
        done = run("kubectl", "kustomize", directory)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return done.stdout


def validated(text):
    """The documents of `text`, and what is wrong with them."""
    done = run("node", HERE / "validate.mjs", SCHEMAS, input=text)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    answer = json.loads(done.stdout)
    return answer["documents"], answer["errors"]


@functools.cache
def _documents(layer):
    return validated(rendered(layer))[0]


def documents(layer):
    return copy.deepcopy(_documents(layer))


def of_kind(manifests, *kinds):
    return [one for one in manifests if one["kind"] in kinds]


def workloads(manifests):
    return of_kind(manifests, "StatefulSet", "DaemonSet")


def pod_of(workload):
    return workload["spec"]["template"]["spec"]


def component(manifests, name):
    (found,) = [one for one in workloads(manifests) if one["spec"]["template"]["metadata"]["labels"].get("app.kubernetes.io/component") == name]
    return found


def container_of(workload):
    (container,) = pod_of(workload)["containers"]
    return container


def heartbeat_of(workload):
    arguments = container_of(workload)["args"]
    return arguments[arguments.index("--heartbeat") + 1] if "--heartbeat" in arguments else "nothing"


def option(workload, name):
    """The value of an option of the program, or None."""
    arguments = container_of(workload)["args"]
    return arguments[arguments.index(name) + 1] if name in arguments else None


def secrets_of(workload):
    """The names of the Secrets, by the directory where they are mounted."""
    names = {volume["name"]: volume["secret"]["secretName"] for volume in pod_of(workload)["volumes"] if "secret" in volume}
    return {mount["mountPath"]: names[mount["name"]] for mount in container_of(workload)["volumeMounts"] if mount["name"] in names}


def selects(selector, labels):
    return all(labels.get(key) == value for key, value in selector.items())


def disagreements(manifests):
    """What manifests say of each other and is not so."""
    found = []
    pods = {one["metadata"]["name"]: one["spec"]["template"]["metadata"]["labels"] for one in workloads(manifests)}
    ports = {port["name"]: port["containerPort"] for one in workloads(manifests) for port in container_of(one).get("ports", [])}
    namespaces = {one["metadata"].get("namespace") for one in manifests if one["kind"] != "Namespace"}
    if namespaces != {one["metadata"]["name"] for one in of_kind(manifests, "Namespace")}:
        found.append(f"objects are in the namespaces {namespaces}")
    accounts = {one["metadata"]["name"]: one for one in of_kind(manifests, "ServiceAccount")}
    services = {one["metadata"]["name"]: one for one in of_kind(manifests, "Service")}
    for one in workloads(manifests):
        name = one["metadata"]["name"]
        if not selects(one["spec"]["selector"]["matchLabels"], pods[name]):
            found.append(f"{name} does not select its own pods")
        if pod_of(one)["serviceAccountName"] not in accounts:
            found.append(f"{name} has an account that does not exist")
        mounted = {mount["name"] for mount in container_of(one)["volumeMounts"]}
        volumes = {volume["name"] for volume in pod_of(one)["volumes"]}
        volumes |= {claim["metadata"]["name"] for claim in one["spec"].get("volumeClaimTemplates", [])}
        if mounted != volumes:
            found.append(f"{name} mounts {mounted} of the volumes {volumes}")
        if one["kind"] == "StatefulSet" and one["spec"]["serviceName"] not in services:
            found.append(f"{name} has a service that does not exist")
        for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
            probe = container_of(one).get(kind, {})
            if "grpc" in probe and probe["grpc"]["port"] not in ports.values():
                found.append(f"{name}: {kind} asks another port")
            command = probe.get("exec", {}).get("command", ["autocfg"])
            if command[0] != "autocfg" and f"find {heartbeat_of(one)} " not in command[-1]:
                found.append(f"{name}: {kind} looks at another file")
        if "startupProbe" not in container_of(one) or "livenessProbe" not in container_of(one):
            found.append(f"{name} has no probe")
    for name, service in services.items():
        chosen = [pod for pod, labels in pods.items() if selects(service["spec"]["selector"], labels)]
        if len(chosen) != 1:
            found.append(f"the service {name} selects {chosen}")
        for port in service["spec"]["ports"]:
            if ports.get(port["targetPort"], port["targetPort"]) != port["port"] or port["targetPort"] not in ports:
                found.append(f"the service {name} has the port {port}")
    addresses = {f"{name}:{port['port']}" for name, service in services.items() for port in service["spec"]["ports"]}
    arguments = container_of(component(manifests, "worker"))["args"]
    if arguments[arguments.index("--coordinator") + 1] not in addresses:
        found.append(f"workers call another address than {addresses}")
    arguments = container_of(component(manifests, "coordinator"))["args"]
    if int(arguments[arguments.index("--listen") + 1].rsplit(":", 1)[1]) not in ports.values():
        found.append("the coordinator listens on another port")
    protected = set()
    for policy in of_kind(manifests, "NetworkPolicy"):
        spec, name = policy["spec"], policy["metadata"]["name"]
        protected |= {pod for pod, labels in pods.items() if selects(spec["podSelector"]["matchLabels"], labels)}
        if set(spec["policyTypes"]) != {"Ingress", "Egress"}:
            found.append(f"the policy {name} leaves a direction open")
        for rule in spec.get("ingress", []) + spec.get("egress", []):
            peers = [peer["podSelector"]["matchLabels"] for peer in rule.get("from", rule.get("to", []))]
            if not peers:
                found.append(f"the policy {name} lets everybody through")
            for peer in peers:
                if peer != DNS and CLIENT not in peer and not any(selects(peer, labels) for labels in pods.values()):
                    found.append(f"the policy {name} names pods that do not exist: {peer}")
            for port in rule.get("ports", []):
                if DNS not in peers and port["port"] not in ports.values():
                    found.append(f"the policy {name} has the port {port['port']}")
    if protected != set(pods):
        found.append(f"policies protect {protected} alone")
    return found


def weaknesses(manifests):
    """What a pod may do and need not."""
    found = []
    for one in of_kind(manifests, "ServiceAccount"):
        if one.get("automountServiceAccountToken") is not False:
            found.append(f"the account {one['metadata']['name']} gives a token")
    for one in of_kind(manifests, "Namespace"):
        if one["metadata"]["labels"].get("pod-security.kubernetes.io/enforce") != "restricted":
            found.append("the namespace admits pods with more rights")
    for one in workloads(manifests):
        name, pod, container = one["metadata"]["name"], pod_of(one), container_of(one)
        if pod.get("automountServiceAccountToken") is not False:
            found.append(f"{name} has a token")
        security = {**pod["securityContext"], **container["securityContext"]}
        wanted = {"runAsNonRoot": True, "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
                  "seccompProfile": {"type": "RuntimeDefault"}}
        found += [f"{name}: {key} is {security.get(key)}" for key, value in wanted.items() if security.get(key) != value]
        if security.get("runAsUser", 0) < 1000:
            found.append(f"{name} runs as a user of the system")
        found += [f"{name} has {key}" for key in ("hostNetwork", "hostPID", "hostIPC") if pod.get(key)]
        for volume in pod["volumes"]:
            if "secret" in volume and volume["secret"].get("defaultMode", 0o644) & 0o007:
                found.append(f"{name}: everybody reads {volume['name']}")
        mounts = [mount for mount in container["volumeMounts"] if mount["mountPath"] in secrets_of(one)]
        found += [f"{name} may write {mount['name']}" for mount in mounts if not mount.get("readOnly")]
        if set(security) & {"privileged"}:
            found.append(f"{name} is privileged")
        resources = container["resources"]
        if not {"cpu", "memory"} <= set(resources["requests"]) or "memory" not in resources["limits"]:
            found.append(f"{name} does not say what it needs")
    return found


@unittest.skipIf(missing(), missing())
class Manifests(unittest.TestCase):
    def test_each_meets_its_schema(self):
        for layer in LAYERS:
            with self.subTest(layer):
                found, errors = validated(rendered(layer))
                self.assertEqual(errors, [])
                self.assertEqual(sorted(one["kind"] for one in found), sorted(
                    ["Namespace", "ServiceAccount", "ServiceAccount", "Service", "StatefulSet", "DaemonSet", "NetworkPolicy", "NetworkPolicy"]))

    def test_a_wrong_manifest_is_refused(self):
        text = rendered("base")
        for right, wrong, words in (("replicas: 1", "replicas: one", "/spec/replicas: must be integer"),
                                    ("readOnlyRootFilesystem:", "readOnlyRootFilesytem:", "securityContext/readOnlyRootFilesytem: no such field"),
                                    ("mountPath: /dev/shm", "readOnly: false", "must have required property mountPath"),
                                    ("kind: StatefulSet", "kind: StatefulSets", "apps/v1 has no kind StatefulSets"),
                                    ("apiVersion: apps/v1\n", "apiVersion: apps/v9\n", "Kubernetes has no API apps/v9"),
                                    ("apiVersion: apps/v1\n", "", "it has no apiVersion or no kind"),
                                    ("    name: grpc\n", "    name: grpc\n    name: grpc\n", "not YAML")):
            with self.subTest(wrong):
                self.assertIn(right, text)
                errors = validated(text.replace(right, wrong, 1))[1]
                self.assertTrue(any(words in error for error in errors), errors)

    def test_they_agree_with_each_other(self):
        for layer in LAYERS:
            self.assertEqual(disagreements(documents(layer)), [], layer)

    def test_they_give_pods_no_right_that_they_do_not_need(self):
        for layer in LAYERS:
            self.assertEqual(weaknesses(documents(layer)), [], layer)

    def test_what_does_not_agree_is_found(self):
        def labels(manifests, name):
            return component(manifests, name)["spec"]["template"]["metadata"]["labels"]

        def policy(manifests):
            return of_kind(manifests, "NetworkPolicy")[0]["spec"]

        def container(manifests, name="worker"):
            return container_of(component(manifests, name))

        for check, words, change in (
                (disagreements, "does not select its own pods", lambda all: labels(all, "worker").update({"app.kubernetes.io/name": "other"})),
                (disagreements, "an account that does not exist", lambda all: pod_of(component(all, "worker")).update(serviceAccountName="x")),
                (disagreements, "of the volumes", lambda all: container(all)["volumeMounts"].pop()),
                (disagreements, "a service that does not exist", lambda all: component(all, "coordinator")["spec"].update(serviceName="x")),
                (disagreements, "asks another port", lambda all: container(all, "coordinator")["livenessProbe"]["grpc"].update(port=1)),
                (disagreements, "looks at another file", lambda all: container(all)["args"].__setitem__(-1, "/tmp/other")),
                (disagreements, "has no probe", lambda all: container(all).pop("livenessProbe")),
                (disagreements, "selects []", lambda all: of_kind(all, "Service")[0]["spec"]["selector"].update({"app.kubernetes.io/name": "x"})),
                (disagreements, "has the port", lambda all: of_kind(all, "Service")[0]["spec"]["ports"][0].update(port=1)),
                (disagreements, "workers call another", lambda all: container(all)["args"].__setitem__(1, "other:5000")),
                (disagreements, "listens on another port", lambda all: container(all, "coordinator")["args"].__setitem__(1, "0.0.0.0:1")),
                (disagreements, "leaves a direction open", lambda all: policy(all).update(policyTypes=["Ingress"])),
                (disagreements, "lets everybody through", lambda all: policy(all)["ingress"][0].pop("from")),
                (disagreements, "that do not exist", lambda all: policy(all)["ingress"][0]["from"][0]["podSelector"]["matchLabels"].update(x="y")),
                (disagreements, "has the port 1", lambda all: policy(all)["ingress"][0]["ports"][0].update(port=1)),
                (disagreements, "alone", lambda all: all.remove(of_kind(all, "NetworkPolicy")[0])),
                (disagreements, "in the namespaces", lambda all: of_kind(all, "Service")[0]["metadata"].pop("namespace")),
                (weaknesses, "gives a token", lambda all: of_kind(all, "ServiceAccount")[0].pop("automountServiceAccountToken")),
                (weaknesses, "has a token", lambda all: pod_of(component(all, "worker")).pop("automountServiceAccountToken")),
                (weaknesses, "admits pods", lambda all: of_kind(all, "Namespace")[0]["metadata"].update(labels={})),
                (weaknesses, "runAsNonRoot is None", lambda all: pod_of(component(all, "worker"))["securityContext"].pop("runAsNonRoot")),
                (weaknesses, "readOnlyRootFilesystem is", lambda all: container(all)["securityContext"].pop("readOnlyRootFilesystem")),
                (weaknesses, "a user of the system", lambda all: pod_of(component(all, "worker"))["securityContext"].update(runAsUser=0)),
                (weaknesses, "has hostNetwork", lambda all: pod_of(component(all, "worker")).update(hostNetwork=True)),
                (weaknesses, "is privileged", lambda all: container(all)["securityContext"].update(privileged=True)),
                (weaknesses, "does not say", lambda all: container(all)["resources"]["requests"].pop("cpu"))):
            with self.subTest(words):
                manifests = documents("base")
                change(manifests)
                self.assertTrue(any(words in one for one in check(manifests)), check(manifests))

    def test_a_secret_that_others_read_is_found(self):
        manifests = documents("secure")
        (volume,) = [volume for volume in pod_of(component(manifests, "coordinator"))["volumes"] if volume["name"] == "tls"]
        volume["secret"].pop("defaultMode")
        (mount,) = [mount for mount in container_of(component(manifests, "worker"))["volumeMounts"] if mount["name"] == "token"]
        mount.pop("readOnly")
        self.assertEqual(weaknesses(manifests), ["autocfg-coordinator: everybody reads tls", "autocfg-worker may write token"])

    def test_the_component_secures_the_base_and_overlays(self):
        manifests = documents("secure")
        coordinator, worker = component(manifests, "coordinator"), component(manifests, "worker")
        for one in (coordinator, worker):
            self.assertNotIn("--insecure", container_of(one)["args"])
        # Files of the options are those of the Secrets, with the names that kubectl gives them.
        made = {"autocfg-coordinator-tls": ("tls.crt", "tls.key"), "autocfg-ca": ("ca.crt",), "autocfg-worker-token": ("token",)}
        for one, options in ((coordinator, ("--tls-cert", "--tls-key")), (worker, ("--tls-ca", "--token-file"))):
            files = {f"{directory}/{key}" for directory, name in secrets_of(one).items() for key in made[name]}
            self.assertEqual({option(one, name) for name in options}, files)
        self.assertIn("--tokens", container_of(coordinator)["args"])
        for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
            probe = container_of(coordinator)[kind]
            self.assertNotIn("grpc", probe, "Kubernetes asks in plain text")
            self.assertEqual(probe["exec"]["command"][0], "autocfg")
            self.assertIn(probe["exec"]["command"][-1], container_of(coordinator)["args"])
        text = (SOURCE / "docs/install.md").read_text(encoding="utf-8")
        for name in made:
            self.assertRegex(text, rf"kubectl -n autocfg create secret \w+ {name} ")

    def test_gpus(self):
        worker = component(documents("base"), "worker")
        self.assertGreater(container_of(worker)["resources"]["limits"]["nvidia.com/gpu"], 0)
        self.assertNotIn("nvidia", rendered("cpu"))

    def test_ranks_have_shared_memory_within_the_memory_of_their_pod(self):
        size = {"Mi": 1, "Gi": 1024}
        for layer in LAYERS:
            worker = component(documents(layer), "worker")
            (name,) = [mount["name"] for mount in container_of(worker)["volumeMounts"] if mount["mountPath"] == "/dev/shm"]
            (volume,) = [volume["emptyDir"] for volume in pod_of(worker)["volumes"] if volume["name"] == name]
            self.assertEqual(volume["medium"], "Memory")
            shared, limit = (int(text[:-2]) * size[text[-2:]] for text in (volume["sizeLimit"], container_of(worker)["resources"]["limits"]["memory"]))
            self.assertLessEqual(shared * 4, limit)

    def test_commands_are_those_of_the_image(self):
        containerfile = (SOURCE / "deploy/container/Containerfile").read_text(encoding="utf-8")
        command = json.loads(re.search(r"^CMD (.+)$", containerfile, re.MULTILINE).group(1))
        for layer in LAYERS:
            manifests = documents(layer)
            coordinator = container_of(component(manifests, "coordinator"))
            if layer != "secure":
                self.assertEqual(coordinator["command"] + coordinator["args"], command)
            self.assertIn(f"\nEXPOSE {coordinator['ports'][0]['containerPort']}\n", containerfile)
            directory = re.search(r"^VOLUME (.+)$", containerfile, re.MULTILINE).group(1)
            self.assertIn(directory, [mount["mountPath"] for mount in coordinator["volumeMounts"]])
            for one in workloads(manifests):
                container = container_of(one)
                self.assertRegex(container["image"], r"^autocfg:\w+$")  # as docker build -t autocfg names it
                (program,) = container["command"]
                known = run(BUILD / "bin" / program, "--help").stdout
                for word in [word for word in container["args"] if word.startswith("-")]:
                    self.assertRegex(known, rf"(?m)^  (-\w,)?{word}\s")
                variables = {variable["name"] for variable in container.get("env", [])}
                self.assertLessEqual(set(re.findall(r"\$\((\w+)\)", " ".join(container["args"]))), variables)


def in_pod(workload, command=None):
    """The command of a shell that runs the container of `workload` in the root directory $root, as the runtime would. `command`: another
    one in that container, as of a probe."""
    pod, container = pod_of(workload), container_of(workload)
    security = pod["securityContext"]
    variables = {"PATH": "/opt/autocfg:/usr/bin:/bin", "NODE_NAME": "node-1.example"}
    words = [word.replace("$(NODE_NAME)", variables["NODE_NAME"]) for word in command or container["command"] + container["args"]]
    return "chroot $root " + shlex.join(
        ["setpriv", f"--reuid={security['runAsUser']}", f"--regid={security['runAsGroup']}", "--clear-groups", "--no-new-privs",
         "--bounding-set=-all", "--inh-caps=-all", "env", "-i", *[f"{key}={value}" for key, value in variables.items()], *words])


@unittest.skipIf(missing(), missing())
@unittest.skipUnless(can_mount() and shutil.which("setpriv"), "needs root, for the root directory and the network of a pod")
class Pods(unittest.TestCase):
    def test_a_search_in_pods_as_they_are_declared(self):
        self.search_in_pods("cpu", "", SEARCH)

    def test_a_search_in_pods_with_the_secure_component(self):
        manifests = documents("secure")
        coordinator, worker = component(manifests, "coordinator"), component(manifests, "worker")
        root, authority, token = "$root", option(worker, "--tls-ca"), option(worker, "--token-file")
        key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"

        def create(name, role):
            return in_pod(coordinator, ["autocfg", "token", "create", name, "--role", role, "--coordinator", "unix:/tmp/server.sock"])
        before = f"""openssl req -x509 {key} -subj /CN=authority -keyout ca.key -out {root}{authority}
openssl req -x509 {key} -subj /CN=coordinator -addext subjectAltName=DNS:autocfg-coordinator -CA {root}{authority} -CAkey ca.key \\
  -keyout {root}{option(coordinator, "--tls-key")} -out {root}{option(coordinator, "--tls-cert")}
"""
        secure = [word for word in SEARCH if word != "--insecure"] + ["--tls-ca", authority, "--token-file", "/tmp/alice.token"]
        between = f"""{in_pod(coordinator, container_of(coordinator)["readinessProbe"]["exec"]["command"])} >&2
{create("nodes", "worker")} >{root}{token}
{create("alice", "submit")} >{root}/tmp/alice.token
if chroot $root env PATH=/opt/autocfg:$PATH {shlex.join(SEARCH)} >&2; then echo 'plain text is answered' >&2; exit 1; fi
"""
        self.search_in_pods("secure", before, secure, between)

    def search_in_pods(self, layer, before, search, between=""):
        """`before`: makes what the Secrets hold. `between`: once the coordinator answers."""
        scratch = tempfile.TemporaryDirectory(prefix="autocfg_pods_")
        self.addCleanup(scratch.cleanup)
        home = pathlib.Path(scratch.name)
        manifests = documents(layer)
        coordinator, worker = component(manifests, "coordinator"), component(manifests, "worker")
        owner = "{runAsUser}:{runAsGroup}".format(**pod_of(worker)["securityContext"])
        mounts = {mount["mountPath"] for one in (coordinator, worker) for mount in container_of(one)["volumeMounts"]}
        probe = in_pod(worker, container_of(worker)["livenessProbe"]["exec"]["command"])
        script = home / "script"
        # The system as it is, under a layer that is made read-only once the volumes have their directories.
        script.write_text(f"""set -eu
ip link set lo up
mkdir {home}/layer
mount -t tmpfs layer {home}/layer
cd {home}/layer
mkdir upper work root
root=$PWD/root
mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work root || exit 77
mkdir -p $root/opt/autocfg {' '.join('$root' + path for path in sorted(mounts))}
echo '127.0.0.1 localhost autocfg-coordinator' >$root/etc/hosts
mount --rbind {BUILD}/bin $root/opt/autocfg
mount -o remount,bind,ro $root
mount -t proc proc $root/proc
mount --rbind /sys $root/sys
mount --rbind /dev $root/dev
for path in {' '.join(sorted(mounts))}; do
  mount -t tmpfs volume $root$path
  chown {owner} $root$path
done
{before}for path in {' '.join(sorted(secrets_of(coordinator) | secrets_of(worker))) or '/tmp'}; do
  chown -R {owner} $root$path
done
if touch $root/written 2>/dev/null; then echo 'the root directory can be written' >&2; exit 1; fi
await() {{
  for ((waited = 0; waited < 600; ++waited)); do
    ! grep -q "$2" "$1" || return 0
    sleep 0.1
  done
  echo "not said: $2" >&2
  return 1
}}
trap 'cat {home}/*.log >&2; kill -9 $(jobs -p) 2>/dev/null || true' EXIT
{in_pod(coordinator)} >{home}/coordinator.log 2>&1 & coordinator=$!
await {home}/coordinator.log 'listening on'
{between}{in_pod(worker)} >{home}/worker.log 2>&1 & worker=$!
await {home}/worker.log 'registered with'
{probe}
touch -d '3 minutes ago' $root/tmp/heartbeat
if {probe}; then echo 'a worker that hangs would be left alone' >&2; exit 1; fi
chroot $root env PATH=/opt/autocfg:$PATH {shlex.join(search)}
kill $worker; wait $worker
if {probe}; then echo 'the heartbeat outlives the worker' >&2; exit 1; fi
kill $coordinator; wait $coordinator
""", encoding="utf-8")
        done = run("unshare", "-mn", "bash", script)
        if done.returncode == 77:
            self.skipTest("no overlay file system here")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["best"]["provenance"], "measured")
        self.assertIn("node-1.example", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
