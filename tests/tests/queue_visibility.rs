//! Queues that are asked about through a real API server, which hands the questions on to an installed operator.

use std::path::PathBuf;
use std::process::Stdio;

use muster_tests::clients::{note, skip};
use muster_tests::differential::{ApiClient, RequestStep};
use muster_tests::jobset_cluster::wait_for;
use muster_tests::muster_process::{MusterProcess, command, until};
use muster_tests::queue_fixture::QueueFixture;
use muster_tests::real::{self, GangSupport, RealCluster};
use muster_tests::visibility::{
    self, EXPLANATIONS, IN_CLUSTER_QUEUE, IN_LOCAL_QUEUE, job, owners, request_operator, wait_for_pending,
    wait_for_visibility_api, workload_of,
};
use muster_tests::{embedded_server, ports};
use muster_tree::{Tree, tree};

const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const GROUPS: [&str; 3] = [
    "v1alpha1.visibility.muster.dev",
    "v1beta1.visibility.kueue.x-k8s.io",
    "v1beta2.visibility.kueue.x-k8s.io",
];
/// An administrator, in the form of the API server's user info.
const ROOT: [(&str, &str); 2] = [("X-Remote-User", "root"), ("X-Remote-Group", "system:masters")];

/// The visibility of pending Workloads by user.
const USERS: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: other}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: user-queue, namespace: other}
spec: {clusterQueue: team}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: batch, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: muster-batch-user}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tenant}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: batch}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: muster-batch-admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: chief}]
";

#[test]
fn a_real_server_tells_what_the_embedded_one_does() {
    let Some(mut stage) = QueueFixture::real("a_real_server_tells_what_the_embedded_one_does") else {
        return;
    };
    visibility::pending_workloads_are_listed_in_order(&stage);
    stage.clear();
    visibility::the_pending_reason_is_explained(&stage);
    stage.clear();
    visibility::a_manifest_is_evaluated_without_being_created(&stage);
    stage.clear();
    whoever_may_is_told(&stage);
    stage.clear();
    only_the_server_is_heard(&stage);
    nobody_is_in_charge(&mut stage);
    let told = stage.operator_log();
    assert!(!told.contains("ERROR muster"), "{told}");
    note(
        "queues: the visibility API and explanations through a real API server, with rights and certificates",
    );
}

/// Tenants list their own LocalQueue, administrators the ClusterQueue; no user learns of namespaces without read rights.
fn whoever_may_is_told(stage: &QueueFixture) {
    stage.set_quota("4m");
    wait_for_visibility_api(stage);
    stage.apply_text(USERS);
    stage.try_apply(&job("greedy", "3m", ""), &["-n", "other"]).unwrap();
    stage.until("one runs", |stage| stage.usage_is("team", "3m"));
    stage.apply_text(&job("waits", "2m", ""));
    wait_for_pending(stage, &["waits"]);
    let explained = format!("{EXPLANATIONS}/{}", workload_of(stage, "waits"));
    for (user, path, may) in [
        ("stranger", IN_LOCAL_QUEUE, false),
        ("stranger", &explained, false),
        ("tenant", IN_LOCAL_QUEUE, true),
        ("tenant", &explained, true),
        ("tenant", IN_CLUSTER_QUEUE, false),
        ("tenant", &IN_LOCAL_QUEUE.replace("namespaces/default", "namespaces/other"), false),
        ("chief", IN_CLUSTER_QUEUE, true),
    ] {
        match stage.get_raw(user, path) {
            Ok(_) => assert!(may, "{user} sees {path}"),
            Err(why) => {
                let words = format!("is forbidden: User \"{user}\" cannot get resource");
                assert!(!may && why.contains("(Forbidden)") && why.contains(&words), "{user} {path}: {why}");
            }
        }
    }
    assert_eq!(owners(&stage.get_raw("tenant", IN_LOCAL_QUEUE).unwrap()), ["waits"]);
    let holders = |user: &str| {
        let told = stage.get_raw(user, &explained).unwrap();
        let text = told.to_json();
        (told.items_at(&["holders"]).len(), text.contains("greedy"))
    };
    assert_eq!(holders("chief"), (1, true), "who may see all is told who has the quota");
    assert_eq!(holders("tenant"), (0, false), "who may not is not");
    stage.kubectl(&["delete", "job", "greedy", "-n", "other", "--timeout=60s"]);
    stage.kubectl(&["delete", "localqueues.kueue.x-k8s.io", "user-queue", "-n", "other"]);
}

/// Names in headers count only from the API server itself.
fn only_the_server_is_heard(stage: &QueueFixture) {
    let (real, installed) = stage.installation().unwrap();
    let (address, front) = (&installed.webhooks, real.front_proxy());
    stage.set_quota("4m");
    wait_for_visibility_api(stage);
    let folder = tempfile::tempdir().unwrap();
    let forged = another(folder.path());
    for (says, shown, headers, code) in [
        ("the server for somebody", Some(&front), &ROOT[..], 200),
        ("the server for nobody", Some(&front), &[][..], 401),
        ("somebody with no certificate", None, &ROOT[..], 401),
        ("somebody with a certificate of another authority", Some(&forged), &ROOT[..], 401),
    ] {
        let (seen, _, told) = request_operator(address, IN_CLUSTER_QUEUE, shown, headers).unwrap();
        assert_eq!(seen, code, "{says}: {told}");
        assert!(code == 200 || told.str_at(&["kind"]) == "Status", "{says}: {told}");
    }
    let stranger = [("X-Remote-User", "stranger")];
    let (code, _, told) = request_operator(address, IN_CLUSTER_QUEUE, Some(&front), &stranger).unwrap();
    assert_eq!((code, told.str_at(&["reason"])), (403, "Forbidden"), "{told}");
    let (code, _, told) = request_operator(address, "/apis", Some(&front), &stranger).unwrap();
    assert_eq!((code, told.items_at(&["groups"]).len()), (200, 2), "{told}");
    let (code, ..) = request_operator(address, "/apis", None, &ROOT).unwrap();
    assert_eq!(code, 401);
    let (code, ..) = request_operator(address, "/readyz", None, &[]).unwrap();
    assert_eq!(code, 200, "probes need no certificate");
}

/// A client certificate with the right name, and its key, signed by an unknown CA.
fn another(folder: &std::path::Path) -> [PathBuf; 2] {
    let authority = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let issuer = params.self_signed(&authority).unwrap().pem();
    let issuer = rcgen::Issuer::from_ca_cert_pem(&issuer, authority).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(rcgen::DnType::CommonName, "front-proxy-client");
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    let certificate = params.signed_by(&key, &issuer).unwrap().pem();
    let files = [("client.crt", certificate), ("client.key", key.serialize_pem())];
    files.map(|(name, text)| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    })
}

/// Without a leader requests are rejected and `muster why` reports what it knows; with the next leader they are answered again.
fn nobody_is_in_charge(stage: &mut QueueFixture) {
    stage.apply_text(&job("waits", "9m", ""));
    wait_for_pending(stage, &["waits"]);
    stage.kill_operator();
    let why = stage.get_raw("", IN_CLUSTER_QUEUE).unwrap_err();
    assert!(why.contains("unable to handle the request") || why.contains("trying to reach service"), "{why}");
    let words = stage.why(&["job/waits"]).unwrap();
    assert!(words.contains("Job default/waits: Pending"), "{words}");
    assert!(words.contains("the server's explanation is not there"), "{words}");
    stage.start_operator();
    wait_for_pending(stage, &["waits"]);
    for name in GROUPS {
        stage.kubectl(&["wait", "--for=condition=Available", &format!("apiservice/{name}"), "--timeout=60s"]);
    }
}

/// A pod as the Deployment would create it; no kubelet runs it.
fn pod(server: &ApiClient, name: &str) {
    let safe = tree!({"allowPrivilegeEscalation": false, "runAsNonRoot": true, "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"}});
    let pod = tree!({"metadata": {"name": name}, "spec": {"schedulingGates": [{"name": "muster.dev/test"}],
        "containers": [{"name": "c", "image": "i", "securityContext": safe}]}});
    let pods = "/api/v1/namespaces/muster-system/pods";
    let made = server.send("POST", pods, &RequestStep::default(), pod.to_json_bytes()).unwrap();
    assert_eq!(made.code, 201, "{}", made.body);
}

/// The pods by which the Service of the visibility API finds the one in charge.
fn in_charge(server: &ApiClient) -> Vec<String> {
    let path = "/api/v1/namespaces/muster-system/pods?labelSelector=muster.dev%2Fleads%3Dtrue";
    let pods = server.get(path).unwrap().body;
    pods.items_at(&["items"]).iter().map(|it| it.str_at(&["metadata", "name"]).to_owned()).collect()
}

/// Of two operators the one in charge is found and answers; the other says when to ask again, until its turn comes.
#[test]
fn the_one_in_charge_is_asked() {
    if let Some(reason) = real::missing() {
        return skip("the_one_in_charge_is_asked", &reason);
    }
    let real = RealCluster::for_install(GangSupport::AllFields).unwrap();
    let installed = real.install(&embedded_server::binary().unwrap()).unwrap();
    let free = format!("127.0.0.1:{}", ports::free());
    let starts = |pod: &str, address: &str| {
        let words = ["operator", "--webhook-service", "muster-webhook", "--webhook-listen", address];
        let mut command = command(&words, &installed.kubeconfig);
        MusterProcess::spawn(command.env("POD_NAME", pod).stderr(Stdio::null()))
    };
    for name in ["one", "two"] {
        pod(&real.server, name);
    }
    let is_marked = |want: &str| {
        wait_for("the pod of the one in charge is marked", || match in_charge(&real.server) {
            seen if seen == [want] => Ok(()),
            seen => Err(format!("{seen:?}")),
        });
    };
    let front = real.front_proxy();
    let queue = "/apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues/nobody/pendingworkloads";
    let answers = |address: &str, want: u16| {
        wait_for("it answers", || match request_operator(address, queue, Some(&front), &ROOT)? {
            (code, later, told) if code == want => {
                assert_eq!(later, if want == 503 { "1" } else { "" }, "{told}");
                Ok(())
            }
            (code, _, told) => Err(format!("{code}: {told}")),
        });
    };
    let mut first = starts("one", &installed.webhooks);
    first.wait_for_line("muster is the leader");
    is_marked("one");
    let second = starts("two", &free);
    // There is no such queue, which only the one in charge can know.
    answers(&installed.webhooks, 404);
    answers(&free, 503);
    let (code, ..) =
        request_operator(&free, "/apis/visibility.kueue.x-k8s.io/v1beta2", Some(&front), &ROOT).unwrap();
    assert_eq!(code, 200, "what there is to ask is told by all");
    drop(first);
    wait_for("the other is in charge", || match in_charge(&real.server) {
        seen if seen == ["two"] => Ok(()),
        seen => Err(format!("{seen:?}")),
    });
    answers(&free, 404);
    drop(second);
}

/// An operator without queue controllers leaves Kueue's APIService to Kueue.
#[test]
fn without_queues_another_may_have_them() {
    if let Some(reason) = real::missing() {
        return skip("without_queues_another_may_have_them", &reason);
    }
    let mut real = RealCluster::with(&["gc", "namespace"]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.yaml");
    let text = "apiVersion: muster.dev/v1alpha1\nkind: Configuration\ncontrollers: ['*', '-queue']\n\
                admission: ['*', '-queue']\n";
    std::fs::write(&config, text).unwrap();
    let config = config.display().to_string();
    let kueue = tree!({"service": {"namespace": "kueue-system", "name": "kueue-webhook-service", "path": "/p", "port": 443},
        "caBundle": ""});
    let hook = tree!({"name": "mjob.kb.io", "clientConfig": (kueue.without_key("caBundle")), "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "rules": [{"apiGroups": ["x.example.org"], "apiVersions": ["v1"],
            "resources": ["xs"], "operations": ["CREATE"]}]});
    let theirs = tree!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "kueue-mutating-webhook-configuration"}, "webhooks": [hook]});
    let made = real.server.send("POST", HOOKS, &RequestStep::default(), theirs.to_json_bytes()).unwrap();
    assert_eq!(made.code, 201, "{}", made.body);
    let spec = tree!({"group": "visibility.kueue.x-k8s.io", "version": "v1beta2", "groupPriorityMinimum": 100,
        "versionPriority": 100, "insecureSkipTLSVerify": true,
        "service": {"namespace": "kueue-system", "name": "kueue-visibility-server", "port": 443}});
    let group = tree!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": (GROUPS[2])}, "spec": spec});
    let group = real.server.send("POST", SERVICES, &RequestStep::default(), group.to_json_bytes()).unwrap();
    assert_eq!(group.code, 201, "{}", group.body);
    let binary = embedded_server::binary().unwrap();
    let installed = real.install_with(&binary, &["--config", &config]).unwrap();
    real.start_installed_operator(&binary, &installed, &["--config", &config]).unwrap();
    let ours = format!("{HOOKS}/jobset-mutating-webhook-configuration");
    until(&real.server, &ours, "ours are kept", |it| {
        let trusts = |hook: &Tree| !hook.str_at(&["clientConfig", "caBundle"]).is_empty();
        it.items_at(&["webhooks"]).iter().all(trusts).then_some(())
    });
    let spec = |path: &str| {
        let seen = real.server.get(path).unwrap();
        assert_eq!(seen.code, 200, "{path}: {}", seen.body);
        seen.body
    };
    let now = spec(&format!("{HOOKS}/kueue-mutating-webhook-configuration"));
    assert_eq!(now.get("webhooks"), made.body.get("webhooks"), "theirs lead where they led");
    assert_eq!(spec(&format!("{SERVICES}/{}", GROUPS[2])).get("spec"), group.body.get("spec"));
    for (path, kind) in
        [(SERVICES, "groups"), ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "definitions")]
    {
        let all = spec(path);
        let named = all.items_at(&["items"]).iter().map(|it| it.str_at(&["metadata", "name"]).to_owned());
        let of_queues: Vec<String> =
            named.filter(|it| it.contains("kueue") || it.contains("visibility")).collect();
        let want: &[&str] = if kind == "groups" { &GROUPS[2..] } else { &[] };
        assert_eq!(of_queues, want, "{kind}");
    }
}
