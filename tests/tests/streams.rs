//! Logs, commands, attaching, copying and ports with kubectl and other people's libraries, against pods that run as
//! processes of this machine.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use muster_tests::clients::{Kubectl, assert_contains, eventually, program, skip};
use muster_tests::embedded_server::{EmbeddedServer, binary};
use muster_tests::real::{self, RealCluster};

/// A server whose only node is the host.
fn local() -> &'static EmbeddedServer {
    static PLANE: OnceLock<EmbeddedServer> = OnceLock::new();
    PLANE.get_or_init(|| EmbeddedServer::start(&["--ephemeral"]).expect("muster up is ready"))
}

fn kubectl(test: &str) -> Option<Kubectl> {
    Kubectl::on(local, test)
}

const STAYS: &str = "trap 'exit 0' TERM; while :; do sleep 0.1; done";

/// A pod with these containers, each a name and a shell command.
fn pod(kubectl: &Kubectl, name: &str, containers: &[(&str, &str)], more: &str) {
    let listed: Vec<String> = containers
        .iter()
        .map(|(name, script)| {
            format!(
                "  - {{name: {name}, image: host, command: [sh, -c, {script:?}], stdin: {}}}",
                *name == "listens"
            )
        })
        .collect();
    let labels = "labels: {app: streams}";
    let manifest = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, {labels}}}\nspec:\n  terminationGracePeriodSeconds: 1\n{more}  containers:\n{}\n",
        listed.join("\n")
    );
    kubectl.ok_with(&["create", "--filename", "-"], &manifest);
}

fn until_ready(kubectl: &Kubectl, name: &str) {
    kubectl.ok(&["wait", "--for=condition=Ready", &format!("pod/{name}"), "--timeout=60s"]);
}

fn until_said(kubectl: &Kubectl, args: &[&str], want: &str) {
    eventually(want, || {
        let said = kubectl.run(&[&["logs"], args].concat());
        if said.out == want { Ok(()) } else { Err(format!("{}{}", said.out, said.err)) }
    });
}

#[test]
fn logs_in_all_their_forms() {
    let Some(kubectl) = kubectl("logs_forms") else { return };
    let talks = format!("echo one; echo two >&2; echo three; {STAYS}");
    pod(&kubectl, "two", &[("a", &talks), ("b", &format!("echo other; {STAYS}"))], "");
    until_ready(&kubectl, "two");
    until_said(&kubectl, &["two", "-c", "b"], "other\n");
    eventually("all lines", || {
        let mut lines: Vec<String> =
            kubectl.run(&["logs", "two", "-c", "a"]).out.lines().map(str::to_owned).collect();
        // stdout and stderr are two pipes: the order between them is not defined.
        lines.sort_unstable();
        if lines == ["one", "three", "two"] { Ok(()) } else { Err(lines) }
    });
    assert_eq!(kubectl.ok(&["logs", "two", "-c", "a", "--tail=1"]).lines().count(), 1);
    assert_eq!(kubectl.ok(&["logs", "two", "-c", "a", "--tail=0"]), "");
    assert_eq!(kubectl.ok(&["logs", "two", "-c", "b", "--limit-bytes=3"]), "oth");
    assert_eq!(kubectl.ok(&["logs", "two", "-c", "b", "--since=1h"]), "other\n");
    assert_eq!(kubectl.ok(&["logs", "two", "-c", "b", "--since-time=2099-01-01T00:00:00Z"]), "");
    let stamped = kubectl.ok(&["logs", "two", "-c", "b", "--timestamps"]);
    let (stamp, rest) = stamped.split_once(' ').unwrap();
    assert!(stamp.starts_with("20") && stamp.ends_with('Z') && stamp.contains('.'), "{stamped}");
    assert_eq!(rest, "other\n");
    let all = kubectl.ok(&["logs", "two", "--all-containers", "--prefix"]);
    assert_contains(&all, &["[pod/two/a] one\n", "[pod/two/a] two\n", "[pod/two/b] other\n"]);
    assert_contains(&kubectl.ok(&["logs", "-l", "app=streams", "-c", "b"]), &["other\n"]);
    let refused = kubectl.run(&["logs", "two", "-c", "x"]).expect_failure();
    assert_contains(&refused, &["container x is not valid for pod two"]);
    let raw = format!("/api/v1/namespaces/{}/pods/two/log", kubectl.namespace);
    let refused = kubectl.run(&["get", "--raw", &raw]).expect_failure();
    assert_contains(&refused, &["a container name must be specified for pod two, choose one of: [a b]"]);
    let refused = kubectl.run(&["logs", "two", "-c", "a", "--previous"]).expect_failure();
    assert_contains(&refused, &["previous terminated container \"a\" in pod \"two\" not found"]);
}

#[test]
fn following_a_log_ends_with_its_container() {
    let Some(kubectl) = kubectl("logs_follow") else { return };
    let slowly = "for i in 1 2 3 4 5; do echo $i; sleep 0.2; done; exit 3";
    pod(&kubectl, "counts", &[("a", slowly)], "  restartPolicy: Never\n");
    eventually("a beginning", || {
        let said = kubectl.run(&["logs", "counts"]);
        if said.success { Ok(()) } else { Err(said.err) }
    });
    assert_eq!(kubectl.ok(&["logs", "-f", "counts"]), "1\n2\n3\n4\n5\n");
    assert_eq!(kubectl.ok(&["logs", "counts"]), "1\n2\n3\n4\n5\n", "a pod that failed still has its log");
}

#[test]
fn the_log_of_the_run_before() {
    let Some(kubectl) = kubectl("logs_previous") else { return };
    let fails_once =
        "if [ -e /again/x ]; then echo second; exec sleep 1000; fi; touch /again/x; echo first; exit 1";
    let manifest = format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: again}}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{{name: again, emptyDir: {{}}}}]
  containers:
  - {{name: a, image: host, command: [sh, -c, {fails_once:?}], volumeMounts: [{{name: again, mountPath: /again}}]}}
"
    );
    kubectl.ok_with(&["create", "--filename", "-"], &manifest);
    until_said(&kubectl, &["again", "--previous"], "first\n");
    until_said(&kubectl, &["again"], "second\n");
    assert_eq!(kubectl.ok(&["logs", "again", "--previous"]), "first\n");
}

#[test]
fn a_container_that_has_not_begun_says_so() {
    let Some(kubectl) = kubectl("logs_waiting") else { return };
    let init = "  initContainers: [{name: first, image: host, command: [sleep, '1000']}]\n";
    pod(&kubectl, "later", &[("a", "true")], init);
    eventually("its first container", || {
        let said = kubectl.run(&["logs", "later", "-c", "first"]);
        if said.success { Ok(()) } else { Err(said.err) }
    });
    let refused = kubectl.run(&["logs", "later", "-c", "a"]).expect_failure();
    assert_contains(&refused, &["container \"a\" in pod \"later\" is waiting to start: PodInitializing"]);
    let refused = kubectl.run(&["exec", "later", "-c", "a", "--", "true"]).expect_failure();
    assert_contains(&refused, &["container not found (\"a\")"]);
}

#[test]
fn commands_run_inside_and_give_their_codes() {
    let Some(kubectl) = kubectl("exec") else { return };
    pod(&kubectl, "runs", &[("a", STAYS)], "");
    until_ready(&kubectl, "runs");
    assert_eq!(kubectl.ok(&["exec", "runs", "--", "echo", "a b"]), "a b\n");
    let said = kubectl.run(&["exec", "runs", "--", "sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!((said.out.as_str(), said.code), ("out\n", Some(7)));
    assert_contains(&said.err, &["err\n", "command terminated with exit code 7"]);
    let refused = kubectl.run(&["exec", "runs", "--", "/no/such/program"]).expect_failure();
    assert_contains(&refused, &["/no/such/program"]);
    assert_eq!(kubectl.ok(&["exec", "runs", "--", "hostname"]), "runs\n", "inside, not beside");

    let long = "0123456789abcdef".repeat(20_000);
    assert_eq!(kubectl.ok_with(&["exec", "-i", "runs", "--", "cat"], &long).len(), long.len());
    assert_eq!(
        kubectl.ok_with(&["exec", "-i", "runs", "--", "wc", "-c"], &long).trim(),
        long.len().to_string()
    );
}

#[test]
fn commands_have_terminals() {
    let Some(kubectl) = kubectl("exec_tty") else { return };
    pod(&kubectl, "runs", &[("a", STAYS)], "");
    until_ready(&kubectl, "runs");
    // The size comes with the first frames, which the command may be ahead of.
    let script = "test -t 0 && test -t 1 || exit 9; until stty size | grep -v ^0; do sleep 0.1; done; exit 5";
    let inner = kubectl.command(&["exec", "-it", "runs", "--", "sh", "-c", script]);
    let mut words = vec![inner.get_program().to_string_lossy().into_owned()];
    words.extend(inner.get_args().map(|arg| format!("'{}'", arg.to_string_lossy())));
    let line = format!("stty rows 33 cols 99; {}", words.join(" "));
    let output = Command::new("script").args(["-qec", &line, "/dev/null"]).stdin(Stdio::null()).output();
    let Ok(output) = output else {
        return skip("commands_have_terminals", "there is no `script` on this machine");
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("33 99"), "{text}");
    assert_eq!(output.status.code(), Some(5), "{text}");
}

#[test]
fn a_command_ends_with_its_client() {
    let Some(kubectl) = kubectl("exec_gone") else { return };
    pod(&kubectl, "runs", &[("a", STAYS)], "");
    until_ready(&kubectl, "runs");
    let mut command = kubectl.command(&["exec", "runs", "--", "sh", "-c", "echo on; exec sleep 4321"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut on = [0; 3];
    child.stdout.take().unwrap().read_exact(&mut on).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("its end", || {
        let all = kubectl.ok(&["exec", "runs", "--", "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"]);
        if all.contains("sleep 4321") { Err(all) } else { Ok(()) }
    });
}

#[test]
fn attaching_to_what_listens() {
    let Some(kubectl) = kubectl("attach") else { return };
    let listens = "while read -r line; do echo heard $line; [ $line = end ] && exit 0; done";
    pod(&kubectl, "ear", &[("listens", listens)], "  restartPolicy: Never\n");
    until_ready(&kubectl, "ear");
    let said = kubectl.ok_with(&["attach", "-i", "ear"], "hello\nend\n");
    assert_contains(&said, &["heard hello\n", "heard end\n"]);
    eventually("its end", || {
        let phase = kubectl.ok(&["get", "pod", "ear", "-o", "jsonpath={.status.phase}"]);
        if phase == "Succeeded" { Ok(()) } else { Err(phase) }
    });
}

#[test]
fn files_are_copied_both_ways() {
    let Some(kubectl) = kubectl("cp") else { return };
    pod(&kubectl, "box", &[("a", STAYS)], "");
    until_ready(&kubectl, "box");
    let text = "line\n".repeat(50_000);
    let there = kubectl.file("there", &text);
    kubectl.ok(&["cp", &there, "box:/tmp/copied"]);
    assert_eq!(
        kubectl.ok(&["exec", "box", "--", "wc", "-c", "/tmp/copied"]),
        format!("{} /tmp/copied\n", text.len())
    );
    let back = kubectl.file("back", "");
    kubectl.ok(&["cp", "box:/tmp/copied", &back]);
    assert_eq!(std::fs::read_to_string(back).unwrap(), text);
}

#[test]
fn ports_are_forwarded() {
    let Some(kubectl) = kubectl("forward") else { return };
    let answers = "import http.server, os, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header('Content-Length', '300000')
        self.end_headers()
        self.wfile.write(b'x' * 300000)
http.server.ThreadingHTTPServer((os.environ['IP'], 8000), Answer).serve_forever()";
    let manifest = format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: web}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: a
    image: host
    command: [python3, -c, {answers:?}]
    env: [{{name: IP, valueFrom: {{fieldRef: {{fieldPath: status.podIP}}}}}}]
    readinessProbe: {{tcpSocket: {{port: 8000}}, periodSeconds: 1}}
"
    );
    kubectl.ok_with(&["create", "--filename", "-"], &manifest);
    until_ready(&kubectl, "web");
    let forwarding = kubectl.watch(&["port-forward", "pod/web", ":8000", ":1"]);
    let mut ports = Vec::new();
    eventually("two ports", || {
        let seen = forwarding.output();
        let lines = seen.lines().filter_map(|line| line.strip_prefix("Forwarding from 127.0.0.1:"));
        ports = lines.filter_map(|rest| rest.split(' ').next()?.parse::<u16>().ok()).collect();
        if ports.len() == 2 { Ok(()) } else { Err(seen) }
    });
    for _ in 0..3 {
        let mut stream = TcpStream::connect(("127.0.0.1", ports[0])).unwrap();
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with(&"x".repeat(300_000)), "{} bytes", answer.len());
    }
    let mut nothing = String::new();
    let mut stream = TcpStream::connect(("127.0.0.1", ports[1])).unwrap();
    let _ = stream.read_to_string(&mut nothing);
    assert_eq!(nothing, "", "nobody listens there");
}

/// kubectl against a real API server: what it said, and its code.
fn on_real(config: &Path, args: &[&str], input: &str) -> (String, String, Option<i32>) {
    let mut command = Command::new(real::program("kubectl").unwrap());
    command.arg("--kubeconfig").arg(config).args(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

#[test]
fn a_real_api_server_reaches_the_pods_of_this_machine() {
    if let Some(reason) = real::missing() {
        return skip("streams_on_real", &reason);
    }
    let mut real = RealCluster::with(&["scheduler", "node"]).unwrap();
    real.add_local_node(&binary().unwrap(), "here", "namespaces").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let config = real.kubeconfig(folder.path(), real.server.base()).unwrap();
    let manifest = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec:\n  containers:\n  \
         - {{name: a, image: host, stdin: true, command: [sh, -c, {:?}]}}\n",
        format!("echo one; read -r line; echo heard $line; {STAYS}")
    );
    let created = on_real(&config, &["create", "--filename", "-"], &manifest);
    assert_eq!(created.2, Some(0), "{created:?}");
    let ready = on_real(&config, &["wait", "--for=condition=Ready", "pod/p", "--timeout=60s"], "");
    assert_eq!(ready.2, Some(0), "{ready:?}");
    eventually("its log", || match on_real(&config, &["logs", "p"], "") {
        (out, _, Some(0)) if out == "one\n" => Ok(()),
        other => Err(other),
    });
    let said = on_real(&config, &["exec", "-i", "p", "--", "sh", "-c", "cat; exit 7"], "typed");
    assert_eq!((said.0.as_str(), said.2), ("typed", Some(7)), "{said:?}");
    let refused = on_real(&config, &["logs", "p", "--previous"], "");
    assert_contains(&refused.1, &["previous terminated container \"a\" in pod \"p\" not found"]);
}

fn passes(test: &str, command: &mut Command) {
    command.env("KUBECONFIG", local().kubeconfig());
    let output = command.output().expect("the program starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{test}: {out}{err}");
}

#[test]
fn the_python_client_streams() {
    let Some(python) = program("MUSTER_TEST_PYTHON", "python_streams") else { return };
    let Some(kubectl) = kubectl("python_streams") else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("python").join("streams.py");
    passes("python", Command::new(python).arg(script).arg(&kubectl.namespace));
}

#[test]
fn kube_rs_streams() {
    let Some(client) = program("MUSTER_TEST_KUBE_RS", "kube_rs_streams") else { return };
    let Some(kubectl) = kubectl("kube_rs_streams") else { return };
    passes("kube-rs", Command::new(client).args([kubectl.namespace.as_str(), "streams"]));
}
