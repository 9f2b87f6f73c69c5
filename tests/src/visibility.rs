//! Visibility stories, which run on any control plane: pending workloads in order, pending reasons, and the evaluation of manifests.

use std::path::PathBuf;

use muster_tree::Tree;
use ureq::Agent;
use ureq::http::Request;
use ureq::tls::{Certificate, ClientCert, PrivateKey, TlsConfig};

use crate::queue_fixture::{QueueFixture, WORKLOADS};

/// Pending workloads of the example ClusterQueue.
pub const IN_CLUSTER_QUEUE: &str =
    "/apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues/team/pendingworkloads";
/// Pending workloads of its LocalQueue in the default namespace.
pub const IN_LOCAL_QUEUE: &str =
    "/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/default/localqueues/user-queue/pendingworkloads";
pub const EXPLANATIONS: &str = "/apis/visibility.muster.dev/v1alpha1/namespaces/default/explanations";

/// Builds a Job with one long-running pod and this CPU request.
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

/// Returns the owners of the listed Workloads, in order.
#[must_use]
pub fn owners(summary: &Tree) -> Vec<String> {
    let items = summary.items_at(&["items"]).iter();
    let owner = |it: &Tree| {
        let owners = it.items_at(&["metadata", "ownerReferences"]);
        owners.first().map(|it| it.str_at(&["name"]).to_owned()).unwrap_or_default()
    };
    items.map(owner).collect()
}

/// Waits until the visibility API is served: an API server proxies an aggregated API only after its own availability check.
pub fn wait_for_visibility_api(fixture: &QueueFixture) {
    for group in ["visibility.kueue.x-k8s.io/v1beta1", "visibility.muster.dev/v1alpha1"] {
        fixture.until("the visibility API is served", |fixture| {
            fixture.get_raw("", &format!("/apis/{group}")).map(drop)
        });
    }
    fixture.until("pending workloads are listed", |fixture| fixture.get_raw("", IN_CLUSTER_QUEUE).map(drop));
}

/// Waits until exactly these Jobs are pending, in this order.
pub fn wait_for_pending(fixture: &QueueFixture, want: &[&str]) {
    fixture.until("the Jobs are pending in order", |fixture| {
        let seen = owners(&fixture.get_raw("", IN_CLUSTER_QUEUE)?);
        if seen == want { Ok(()) } else { Err(format!("{seen:?}")) }
    });
}

/// Returns the name of the Workload of an owner.
#[must_use]
pub fn workload_of(fixture: &QueueFixture, job: &str) -> String {
    let all = fixture.get(&[WORKLOADS]);
    let owned = |it: &&Tree| {
        it.items_at(&["metadata", "ownerReferences"]).iter().any(|it| it.str_at(&["name"]) == job)
    };
    let found = all.items_at(&["items"]).iter().find(owned);
    found.unwrap_or_else(|| panic!("{job} has none: {all}")).str_at(&["metadata", "name"]).to_owned()
}

/// Pending workloads are listed in order, in both versions, whole and in pages.
pub fn pending_workloads_are_listed_in_order(fixture: &QueueFixture) {
    fixture.set_quota("1m");
    wait_for_visibility_api(fixture);
    fixture.apply_text(HIGH);
    fixture.apply_text(&job("runs", "1m", ""));
    fixture.until("one runs", |fixture| fixture.usage_is("team", "1m"));
    fixture.apply_text(&job("low", "1m", ""));
    wait_for_pending(fixture, &["low"]);
    fixture.apply_text(&job("high", "1m", IS_HIGH));
    wait_for_pending(fixture, &["high", "low"]);
    for version in ["v1beta1", "v1beta2"] {
        let of = |path: &str| {
            fixture.get_raw("", &path.replace("v1beta2", version)).expect("the request succeeds")
        };
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
        let actual = fixture.get_raw("", &path).expect_err("it is rejected");
        assert!(actual.contains(&format!("({why})")), "{path}: {actual}");
    }
    let listed = fixture.kubectl(&["api-resources", "--api-group", "visibility.muster.dev", "--no-headers"]);
    assert!(listed.starts_with("explanations "), "{listed}");
}

/// The pending reason is reported by the API, by `muster why` and as a table.
pub fn the_pending_reason_is_explained(fixture: &QueueFixture) {
    fixture.set_quota("4m");
    wait_for_visibility_api(fixture);
    fixture.apply_text(&job("holds", "3m", ""));
    fixture.until("one runs", |fixture| fixture.usage_is("team", "3m"));
    fixture.apply_text(&job("waits", "2m", ""));
    wait_for_pending(fixture, &["waits"]);
    let (workload, holder) = (workload_of(fixture, "waits"), workload_of(fixture, "holds"));
    fixture.until("it was evaluated", |fixture| {
        let explanation = fixture.get_raw("", &format!("{EXPLANATIONS}/{workload}"))?;
        let actual = (explanation.str_at(&["state"]), explanation.str_at(&["reason"]));
        if actual == ("Pending", "WaitingForQuota") { Ok(()) } else { Err(explanation.to_json()) }
    });
    let explanation =
        fixture.get_raw("", &format!("{EXPLANATIONS}/{workload}")).expect("the request succeeds");
    assert_eq!(
        (explanation.str_at(&["localQueue"]), explanation.str_at(&["clusterQueue"])),
        ("user-queue", "team")
    );
    assert_eq!(explanation.items_at(&["holders"])[0].str_at(&["name"]), holder, "{explanation}");
    let words = fixture.why(&["job/waits"]).expect("the request succeeds");
    for want in [
        "Job default/waits: Pending",
        "number 1 in LocalQueue user-queue, number 1 in ClusterQueue team",
        "cpu: 2m asked for, 1m available, 4m at most, 1m missing",
    ] {
        assert!(words.contains(want), "{want} is not in\n{words}");
    }
    let table = fixture.kubectl(&["get", "explanations.visibility.muster.dev", &workload]);
    assert!(table.contains("STATE") && table.contains("WaitingForQuota"), "{table}");
}

/// A manifest is evaluated without being created.
pub fn a_manifest_is_evaluated_without_being_created(fixture: &QueueFixture) {
    fixture.set_quota("4m");
    wait_for_visibility_api(fixture);
    fixture.apply_text(&job("holds", "3m", ""));
    fixture.until("one runs", |fixture| fixture.usage_is("team", "3m"));
    for (case, cpu, want) in [
        ("it fits", "1m", "Manifest default/new: WouldBeAdmitted"),
        ("the quota is in use", "2m", "Manifest default/new: WouldWait"),
        ("the quota is too small", "5m", "ExceedsMaxQuota"),
    ] {
        let file = fixture.write_file("tried.yaml", &job("new", cpu, ""));
        let words = fixture.why(&["-f", &file, "-n", "default"]).expect("the request succeeds");
        assert!(words.contains(want), "{case}: {words}");
    }
    let wrong = fixture.write_file("tried.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n");
    let why = fixture.why(&["-f", &wrong, "-n", "default"]).expect_err("it is rejected");
    assert!(why.contains("a Service cannot be tried"), "{why}");
    assert_eq!(fixture.get(&["jobs"]).items_at(&["items"]).len(), 1, "no Job was created");
}

/// Sends a request to the operator, bypassing the API server; returns the status code, `Retry-After` and the body.
///
/// # Errors
/// The connection fails.
pub fn request_operator(
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
    let body = Tree::parse(text.as_bytes()).unwrap_or_else(|_| Tree::from(text));
    Ok((response.status().as_u16(), later, body))
}
