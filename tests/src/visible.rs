//! Queues that are asked about, on any plane: who waits in which order, why, and what would become of a manifest.

use std::path::PathBuf;

use muster_tree::Tree;
use ureq::Agent;
use ureq::http::Request;
use ureq::tls::{Certificate, ClientCert, PrivateKey, TlsConfig};

use crate::queues::{Stage, WORKLOADS};

/// Who waits in the queue of the examples.
pub const IN_CLUSTER_QUEUE: &str =
    "/apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues/team/pendingworkloads";
/// The same, of the way to it from the default namespace.
pub const IN_LOCAL_QUEUE: &str =
    "/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/default/localqueues/user-queue/pendingworkloads";
/// Explanations of the default namespace.
pub const EXPLANATIONS: &str = "/apis/visibility.muster.dev/v1alpha1/namespaces/default/explanations";

/// A Job of one pod that runs for long and asks for this much.
#[must_use]
pub fn job(name: &str, cpu: &str, more: &str) -> String {
    format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: {name}, labels: {{kueue.x-k8s.io/queue-name: user-queue{more}}}}}\n\
         spec:\n  template:\n    metadata: {{annotations: {{muster.dev/sim-run-seconds: '600'}}}}\n    spec:\n      \
         restartPolicy: Never\n      terminationGracePeriodSeconds: 1\n      \
         containers: [{{name: c, image: i, resources: {{requests: {{cpu: {cpu}}}}}}}]\n"
    )
}

const HIGH: &str =
    "apiVersion: kueue.x-k8s.io/v1beta2\nkind: WorkloadPriorityClass\nmetadata: {name: high}\nvalue: 10\n";
const IS_HIGH: &str = ", kueue.x-k8s.io/priority-class: high";

/// Whose Workloads are told of, in order.
#[must_use]
pub fn owners(summary: &Tree) -> Vec<String> {
    let items = summary.items_at(&["items"]).iter();
    let owner = |it: &Tree| {
        let owners = it.items_at(&["metadata", "ownerReferences"]);
        owners.first().map(|it| it.str_at(&["name"]).to_owned()).unwrap_or_default()
    };
    items.map(owner).collect()
}

/// Waits until questions are answered: an API server hands nothing on before it has seen an answer itself.
pub fn until_told(stage: &Stage) {
    for group in ["visibility.kueue.x-k8s.io/v1beta1", "visibility.muster.dev/v1alpha1"] {
        stage.until("questions are answered", |stage| stage.raw("", &format!("/apis/{group}")).map(drop));
    }
    stage.until("who waits is told", |stage| stage.raw("", IN_CLUSTER_QUEUE).map(drop));
}

/// Waits until these jobs wait, in this order.
pub fn until_wait(stage: &Stage, want: &[&str]) {
    stage.until("they wait in order", |stage| {
        let seen = owners(&stage.raw("", IN_CLUSTER_QUEUE)?);
        if seen == want { Ok(()) } else { Err(format!("{seen:?}")) }
    });
}

/// The Workload of a job.
#[must_use]
pub fn workload_of(stage: &Stage, job: &str) -> String {
    let all = stage.get(&[WORKLOADS]);
    let owned = |it: &&Tree| {
        it.items_at(&["metadata", "ownerReferences"]).iter().any(|it| it.str_at(&["name"]) == job)
    };
    let found = all.items_at(&["items"]).iter().find(owned);
    found.unwrap_or_else(|| panic!("{job} has none: {all}")).str_at(&["metadata", "name"]).to_owned()
}

/// Who waits is told in order, in both versions, as a whole or in part.
pub fn who_waits_is_told_in_order(stage: &Stage) {
    stage.quota("1m");
    until_told(stage);
    stage.apply_text(HIGH);
    stage.apply_text(&job("runs", "1m", ""));
    stage.until("one runs", |stage| stage.uses("team", "1m"));
    stage.apply_text(&job("low", "1m", ""));
    until_wait(stage, &["low"]);
    stage.apply_text(&job("high", "1m", IS_HIGH));
    until_wait(stage, &["high", "low"]);
    for version in ["v1beta1", "v1beta2"] {
        let of = |path: &str| stage.raw("", &path.replace("v1beta2", version)).expect("it is told");
        let all = of(IN_CLUSTER_QUEUE);
        assert_eq!(all.str_at(&["kind"]), "PendingWorkloadsSummary");
        assert_eq!(all.str_at(&["apiVersion"]), format!("visibility.kueue.x-k8s.io/{version}"));
        let places: Vec<[Option<i64>; 3]> = all
            .items_at(&["items"])
            .iter()
            .map(|it| {
                ["positionInClusterQueue", "positionInLocalQueue", "priority"].map(|key| it.int_at(&[key]))
            })
            .collect();
        assert_eq!(places, [[0, 0, 10], [1, 1, 0]].map(|it| it.map(Some)));
        assert_eq!(owners(&of(&format!("{IN_CLUSTER_QUEUE}?offset=1&limit=1"))), ["low"]);
        assert_eq!(owners(&of(IN_LOCAL_QUEUE)), ["high", "low"]);
    }
    for (path, why) in [
        (IN_CLUSTER_QUEUE.replace("team", "nobody"), "NotFound"),
        (IN_LOCAL_QUEUE.replace("user-queue", "nobody"), "NotFound"),
        (format!("{IN_CLUSTER_QUEUE}?offset=-1"), "BadRequest"),
        (IN_CLUSTER_QUEUE.replace("/pendingworkloads", ""), "MethodNotAllowed"),
        (IN_CLUSTER_QUEUE.replace("v1beta2", "v1beta3"), "NotFound"),
    ] {
        let said = stage.raw("", &path).expect_err("it is refused");
        assert!(said.contains(&format!("({why})")), "{path}: {said}");
    }
    let listed = stage.kubectl(&["api-resources", "--api-group", "visibility.muster.dev", "--no-headers"]);
    assert!(listed.starts_with("explanations "), "{listed}");
}

/// Why somebody waits is told, to programs and to people.
pub fn waiting_is_explained(stage: &Stage) {
    stage.quota("4m");
    until_told(stage);
    stage.apply_text(&job("holds", "3m", ""));
    stage.until("one runs", |stage| stage.uses("team", "3m"));
    stage.apply_text(&job("waits", "2m", ""));
    until_wait(stage, &["waits"]);
    let (workload, holder) = (workload_of(stage, "waits"), workload_of(stage, "holds"));
    stage.until("it was looked at", |stage| {
        let told = stage.raw("", &format!("{EXPLANATIONS}/{workload}"))?;
        let said = (told.str_at(&["state"]), told.str_at(&["reason"]));
        if said == ("Pending", "WaitingForQuota") { Ok(()) } else { Err(told.to_json()) }
    });
    let told = stage.raw("", &format!("{EXPLANATIONS}/{workload}")).expect("it is told");
    assert_eq!((told.str_at(&["localQueue"]), told.str_at(&["clusterQueue"])), ("user-queue", "team"));
    assert_eq!(told.items_at(&["holders"])[0].str_at(&["name"]), holder, "{told}");
    let words = stage.why(&["job/waits"]).expect("it is told");
    for want in [
        "Job default/waits: Pending",
        "number 1 in LocalQueue user-queue, number 1 in ClusterQueue team",
        "cpu: 2m asked for, 1m available, 4m at most, 1m missing",
    ] {
        assert!(words.contains(want), "{want} is not in\n{words}");
    }
    let table = stage.kubectl(&["get", "explanations.visibility.muster.dev", &workload]);
    assert!(table.contains("STATE") && table.contains("WaitingForQuota"), "{table}");
}

/// A manifest is tried, and nothing is made of it.
pub fn a_manifest_is_tried_without_being_made(stage: &Stage) {
    stage.quota("4m");
    until_told(stage);
    stage.apply_text(&job("holds", "3m", ""));
    stage.until("one runs", |stage| stage.uses("team", "3m"));
    for (says, cpu, want) in [
        ("it fits", "1m", "Manifest default/new: WouldBeAdmitted"),
        ("there is no room", "2m", "Manifest default/new: WouldWait"),
        ("there never is", "5m", "ExceedsMaxQuota"),
    ] {
        let file = stage.file("tried.yaml", &job("new", cpu, ""));
        let words = stage.why(&["-f", &file, "-n", "default"]).expect("it is told");
        assert!(words.contains(want), "{says}: {words}");
    }
    let wrong = stage.file("tried.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n");
    let why = stage.why(&["-f", &wrong, "-n", "default"]).expect_err("it is refused");
    assert!(why.contains("a Service cannot be tried"), "{why}");
    assert_eq!(stage.get(&["jobs"]).items_at(&["items"]).len(), 1, "nothing was made");
}

/// What an operator says to whoever asks it past the API server: the code, when to come back, and the words.
///
/// # Errors
/// It does not answer.
pub fn ask(
    address: &str,
    path: &str,
    shown: Option<&[PathBuf; 2]>,
    headers: &[(&str, &str)],
) -> Result<(u16, String, Tree), String> {
    let read = |path: &PathBuf| std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()));
    let shown = match shown {
        None => None,
        Some([certificate, key]) => {
            let certificate = Certificate::from_pem(&read(certificate)?).map_err(|e| e.to_string())?;
            let key = PrivateKey::from_pem(&read(key)?).map_err(|e| e.to_string())?;
            Some(ClientCert::new_with_certs(&[certificate], key))
        }
    };
    let tls = TlsConfig::builder().disable_verification(true).client_cert(shown).build();
    let agent: Agent =
        Agent::config_builder().tls_config(tls).http_status_as_error(false).build().new_agent();
    let mut request = Request::builder().uri(format!("https://{address}{path}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(()).map_err(|e| e.to_string())?;
    let mut response = agent.run(request).map_err(|e| e.to_string())?;
    let later = response.headers().get("Retry-After").and_then(|it| it.to_str().ok()).unwrap_or_default();
    let later = later.to_owned();
    let text = response.body_mut().read_to_string().map_err(|e| e.to_string())?;
    let told = Tree::parse(text.as_bytes()).unwrap_or_else(|_| Tree::from(text));
    Ok((response.status().as_u16(), later, told))
}
