//! Progress reports of training on a real Kubernetes with an installed operator: the URL, token and CA in the pods, and the
//! answers of leader and follower.
//!
//! Nothing routes to the address of a Service here: clients call it by its name, at the ports of this machine.

use std::io::Write;
use std::process::{Command, Stdio};

use muster_tests::clients::note;
use muster_tests::muster_process::MusterProcess;
use muster_tests::progress_reports::{audience, check_responses, path, stored, token};
use muster_tests::queue_fixture::QueueFixture;
use muster_tests::{embedded_server, ports};
use muster_tree::Tree;

use crate::train_cluster::{job, runs, runtime};

/// The name by which pods call the operator.
const HOST: &str = "muster-webhook.muster-system.svc";
/// Which replica is reached is the same to them.
const TOLD: &str = r#"{"trainerStatus":{"progressPercentage":7,"lastUpdatedTime":"2026-01-01T00:00:00Z"}}"#;

/// A configuration with the gate on, at this port.
fn configuration(port: u16) -> String {
    format!(
        "apiVersion: muster.dev/v1alpha1\nkind: Configuration\nfeatureGates: {{TrainJobStatus: true}}\n---\n\
         apiVersion: config.trainer.kubeflow.org/v1alpha1\nkind: Configuration\nstatusServer: {{port: {port}, qps: 50, burst: 100}}\n"
    )
}

/// A runtime whose pods name a ServiceAccount: no admission plugin of these control planes sets one.
fn accounted() -> String {
    let (without, with) =
        ("{terminationGracePeriodSeconds", "{serviceAccountName: default, terminationGracePeriodSeconds");
    let text = runtime("long", 3600);
    assert!(text.contains(without), "{text}");
    text.replace(without, with)
}

/// An HTTPS client that trusts the CA in this file and connects to the Service at this port of the host.
struct Pod<'a> {
    authority: &'a str,
    port: u16,
}

impl Pod<'_> {
    fn send(&self, method: &str, token: &str, path: &str, body: &str) -> Result<(u16, Tree), String> {
        let port = self.port;
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--cacert", self.authority, "--request", method, "--data-binary", "@-"]);
        curl.args(["--connect-to", &format!("{HOST}:{port}:127.0.0.1:{port}"), "-w", "\n%{http_code}"]);
        if !token.is_empty() {
            curl.args(["-H", &format!("Authorization: bearer {token}")]);
        }
        curl.arg(format!("https://{HOST}:{port}{path}"));
        let mut child =
            curl.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // A replica that cannot be reached accepts no report.
        let _ = child.stdin.take().unwrap().write_all(body.as_bytes());
        let output = child.wait_with_output().unwrap();
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let text = String::from_utf8(output.stdout).unwrap();
        let (body, code) = text.rsplit_once('\n').unwrap();
        Ok((code.parse().unwrap(), Tree::parse(body.as_bytes()).map_err(|e| format!("{e}: {body}"))?))
    }

    fn post(&self, token: &str, path: &str, body: &str) -> (u16, Tree) {
        self.send("POST", token, path, body).unwrap()
    }
}

/// The pods of a TrainJob have the URL, a token and the CA of the progress endpoint; returns the CAs.
fn what_pods_are_given(stage: &QueueFixture, port: u16) -> String {
    stage.apply_text(&job("tells", "long", &[]));
    stage.until("it runs", runs("tells"));
    let pods = stage.get(&["pods", "--selector", "jobset.sigs.k8s.io/jobset-name=tells"]);
    let spec = pods.items_at(&["items"])[0].at(&["spec"]).cloned().unwrap();
    let set = stage.get(&["jobset", "tells"]);
    let job = &set.items_at(&["spec", "replicatedJobs"])[0];
    for spec in [&spec, job.at(&["template", "spec", "template", "spec"]).unwrap()] {
        let container = &spec.items_at(&["containers"])[0];
        let value = |name: &str| {
            let all = container.items_at(&["env"]).iter();
            all.filter(|it| it.str_at(&["name"]) == name)
                .map(|it| it.str_at(&["value"]).to_owned())
                .collect::<String>()
        };
        let folder = "/var/run/secrets/kubeflow/trainer";
        let to = format!("https://{HOST}:{port}{}", path("tells"));
        assert_eq!(value("KUBEFLOW_TRAINER_SERVER_URL"), to);
        assert_eq!(value("KUBEFLOW_TRAINER_SERVER_CA_CERT"), format!("{folder}/ca.crt"));
        assert_eq!(value("KUBEFLOW_TRAINER_SERVER_TOKEN"), format!("{folder}/token"));
        let volumes = spec.items_at(&["volumes"]);
        let volume = volumes.iter().find(|it| it.str_at(&["name"]) == "kubeflow-trainer-token").unwrap();
        let sources = volume.items_at(&["projected", "sources"]);
        assert_eq!(sources[0].str_at(&["serviceAccountToken", "audience"]), audience("tells"));
        assert_eq!(sources[1].str_at(&["configMap", "name"]), "tells-tls-config");
        let mounts = container.items_at(&["volumeMounts"]).iter();
        let mut mounts = mounts.filter(|it| it.str_at(&["name"]) == "kubeflow-trainer-token");
        assert_eq!(mounts.next().unwrap().str_at(&["mountPath"]), folder);
    }
    trusted(stage)
}

/// The authorities that pods of that TrainJob trust.
fn trusted(stage: &QueueFixture) -> String {
    let map = stage.get(&["configmap", "tells-tls-config"]);
    assert_eq!(map.items_at(&["metadata", "ownerReferences"])[0].str_at(&["name"]), "tells");
    map.str_at(&["data", "ca.crt"]).to_owned()
}

/// The ports of the progress endpoint with this configuration: of the Service and of its pods.
fn what_is_installed(config: &str, port: u16) {
    let mut install = Command::new(embedded_server::binary().unwrap());
    let output = install.args(["install", "--dry-run", "-o", "json", "--config", config]).output().unwrap();
    let list = Tree::parse(&output.stdout).unwrap();
    let find = |kind: &str, name: &str| {
        let mut all = list.items_at(&["items"]).iter();
        let is = |it: &&Tree| it.str_at(&["kind"]) == kind && it.str_at(&["metadata", "name"]) == name;
        all.find(is).cloned().unwrap_or_else(|| panic!("no {kind} {name}"))
    };
    let port = Some(i64::from(port));
    let service = find("Service", "muster-webhook");
    let ports = service.items_at(&["spec", "ports"]);
    assert!(ports.iter().any(|it| it.int_at(&["port"]) == port && it.str_at(&["targetPort"]) == "status"));
    let pod = find("Deployment", "muster-operator");
    let ports = pod.items_at(&["spec", "template", "spec", "containers"])[0].items_at(&["ports"]).to_vec();
    assert!(ports.iter().any(|it| it.int_at(&["containerPort"]) == port && it.str_at(&["name"]) == "status"));
}

#[test]
fn training_of_a_real_server_tells_how_far_it_is() {
    let Some(mut stage) = QueueFixture::real("training_of_a_real_server_tells_how_far_it_is") else { return };
    let [port, second] = [(); 2].map(|()| ports::free());
    let config = stage.write_file("config.yaml", &configuration(port));
    what_is_installed(&config, port);
    stage.stop_operator();
    stage.start_operator_with(&["--config", &config]);
    stage.apply_text(&accounted());
    let authority = stage.write_file("ca.crt", &what_pods_are_given(&stage, port));
    let (real, installed) = stage.installation().unwrap();
    let (server, pod) = (&real.server, Pod { authority: &authority, port });
    check_responses(server, "long", &|token, path, body| pod.post(token, path, body));
    let mine = token(server, "default", &audience("tells"));
    for (method, at) in
        [("POST", "/"), ("POST", "/healthz"), ("GET", &path("tells")), ("PUT", &path("tells"))]
    {
        let (code, answer) = pod.send(method, &mine, at, TOLD).unwrap();
        assert_eq!((code, answer.str_at(&["message"])), (404, "Not found"), "{method} {at}");
    }
    assert_eq!(stored(server, "tells"), None, "nothing was told so far");
    // A follower accepts reports as well.
    let other = stage.write_file("other.yaml", &configuration(second));
    let words = [
        "operator",
        "--webhook-service",
        "muster-webhook",
        "--webhook-listen",
        "127.0.0.1:0",
        "--config",
        &other,
    ];
    let beside = MusterProcess::start(&words, &installed.kubeconfig);
    let standing = Pod { authority: &authority, port: second };
    stage.until("who stands by answers", |_| match standing.send("POST", &mine, &path("tells"), TOLD)? {
        (200, _) => Ok(()),
        other => Err(format!("{other:?}")),
    });
    assert_eq!(stored(server, "tells").unwrap().int_at(&["progressPercentage"]), Some(7));
    drop(beside);
    // The authority is lost: another takes its place, and pods trust it before it certifies anything.
    let lost = r#"[{"op": "remove", "path": "/data/authority.key"}]"#;
    let secret =
        ["-n", "muster-system", "patch", "secret", "muster-webhook-certs", "--type=json", "-p", lost];
    stage.kubectl(&secret);
    stage.until("pods are told to trust another, too", |stage| {
        let now = trusted(stage);
        if now.matches("BEGIN CERTIFICATE").count() == 2 { Ok(()) } else { Err(now) }
    });
    let both = stage.write_file("both.crt", &trusted(&stage));
    let (code, answer) = Pod { authority: &both, port }.post(&mine, &path("tells"), TOLD);
    assert_eq!(code, 200, "{answer}");
    let told = stage.operator_log();
    assert!(!told.contains("ERROR muster") && !told.contains("cannot create resource"), "{told}");
    note(
        "training tells how far it is on a real server: whoever leads, and whatever becomes of the certificates",
    );
}
