//! Configuration files, their problems and warnings.

use std::time::Duration;

use super::*;
use muster_trainer::controller::DeadlineClock;

use crate::flags::{LogLevel, Runtime};
use crate::progress_api::rate_limit::ProgressRateLimit;
use crate::training::{CLUSTER_DELETIONS_MAX, TrainJobSettings};

const OURS: &str = "apiVersion: muster.dev/v1alpha1\nkind: Configuration\n";
const JOBSET: &str = "apiVersion: config.jobset.x-k8s.io/v1alpha1\nkind: Configuration\n";
const KUEUE1: &str = "apiVersion: config.kueue.x-k8s.io/v1beta1\nkind: Configuration\n";
const KUEUE2: &str = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n";
const TRAINER: &str = "apiVersion: config.trainer.kubeflow.org/v1alpha1\nkind: Configuration\n";

fn for_up(text: &str) -> Result<ConfigFile, String> {
    parse(text, Command::Up)
}

fn for_operator(text: &str) -> Result<ConfigFile, String> {
    parse(text, Command::Operator)
}

#[test]
fn our_own_document_is_parsed() {
    let text = format!(
        "{OURS}listen: 127.0.0.1:0\ncontrollers: ['*', '-job']\nlogLevel: debug\nruntime: podman\nkubeconfig:\n\
         resourceClaims: {{rejectOverrides: true}}\n"
    );
    let config = for_up(&text).unwrap().config;
    assert_eq!(config.listen, Some("127.0.0.1:0".parse().unwrap()));
    assert_eq!(config.log_level, Some(LogLevel::Debug));
    assert_eq!(config.runtime, Some(Runtime::Podman));
    assert_eq!(config.kubeconfig, None, "a key without a value says nothing");
    assert!(config.resource_claims.reject_overrides);
    let text = format!(
        "{OURS}namespace: mine\nwebhook: {{listen: '0.0.0.0:9443', service: s}}\n\
         health: {{listen: '0.0.0.0:8081'}}\n"
    );
    let file = for_operator(&text).unwrap();
    assert_eq!(file.config.webhook.service.as_deref(), Some("s"));
    assert_eq!(file.config.health.listen, Some("0.0.0.0:8081".parse().unwrap()));
    let text =
        format!("{OURS}webhook: {{certificates: {{serving: 24h}}}}\ntls: {{minVersion: VersionTLS13}}\n");
    let file = for_operator(&text).unwrap();
    assert_eq!(file.config.webhook.certificates.serving.unwrap().0.as_secs(), 86_400);
    assert_eq!(file.tls, TlsOptions::parse("VersionTLS13", &[]).ok());
    assert!(for_operator("").unwrap().warnings.is_empty(), "an empty file says nothing");
}

#[test]
fn problems_have_a_line_a_path_and_a_remedy() {
    for (says, text, words) in [
        (
            "an unknown key",
            format!("{OURS}listne: x\n"),
            "line 3: listne: unknown key; did you mean `listen`?",
        ),
        (
            "one below",
            format!("{OURS}resourceClaims: {{reject: true}}\n"),
            "line 3: resourceClaims.reject: unknown key; known are rejectOverrides",
        ),
        (
            "another clock",
            format!("{OURS}trainjob: {{deadlineClock: start}}\n"),
            "line 3: trainjob.deadlineClock: Invalid value: \"start\": must be one of auto, creation, active",
        ),
        (
            "a key of TrainJobs that is none",
            format!("{OURS}trainjob: {{clock: auto}}\n"),
            "line 3: trainjob.clock: unknown key; known are deadlineClock, registry, dataCache",
        ),
        (
            "another kind",
            "apiVersion: v1\nkind: Pod\n".to_owned(),
            "expected kind Configuration of one of muster.dev/v1alpha1",
        ),
        ("no kind", "listen: x\n".to_owned(), "found ` `"),
        ("both places", format!("{OURS}ephemeral: true\ndataDir: x\n"), "exclude each other"),
        ("an unknown engine", format!("{OURS}runtime: runc\n"), "must be one of process, docker, podman"),
        (
            "a wrong address",
            format!("{OURS}listen: here\n"),
            "line 3: listen: Invalid value: \"here\": must be an address and a port",
        ),
        (
            "a key of the operator",
            format!("{OURS}webhook: {{service: s}}\n"),
            "this is a key of `muster operator` and has no effect on `muster up`",
        ),
        (
            "twice ours",
            format!("{OURS}---\n{OURS}"),
            "line 4: apiVersion: this is the second document of muster",
        ),
        ("both of kueue", format!("{KUEUE1}---\n{KUEUE2}"), "the second document of kueue"),
        ("queues twice", format!("{KUEUE2}---\n{OURS}queueing: {{}}\n"), "keep one of them"),
        (
            "a key in another document",
            format!("{OURS}---\n{JOBSET}webhok: {{}}\n"),
            "line 6: webhok: unknown key; did you mean `webhook`?",
        ),
        ("no document", "- a\n".to_owned(), "expected kind Configuration"),
        ("no YAML", "a: [\n".to_owned(), ""),
    ] {
        let error = for_up(&text).expect_err(says);
        assert!(error.contains(words), "{says}: {error}");
    }
    let error = for_operator(&format!("{OURS}dataDir: x\nhelth: {{}}\n---\n{TRAINER}webhook: {{port: 0}}\n"))
        .unwrap_err();
    let all = [
        "line 3: dataDir: this is a key of `muster up`",
        "line 4: helth",
        "line 8: webhook.port: Invalid value: 0: must be between 1 and 65535",
    ];
    for words in all {
        assert!(error.contains(words), "all at once: {error}");
    }
}

#[test]
fn upstream_documents_are_strict_too() {
    for (says, text, words) in [
        (
            "a Service's name",
            format!("{JOBSET}internalCertManagement: {{webhookServiceName: A_b}}\n"),
            "internalCertManagement.webhookServiceName: Invalid value: \"A_b\": a DNS-1035 label must consist of",
        ),
        (
            "a Secret's name",
            format!("{JOBSET}internalCertManagement: {{webhookSecretName: A_b}}\n"),
            "a lowercase RFC 1123 subdomain must consist of",
        ),
        (
            "suites of TLS 1.3",
            format!("{JOBSET}tls: {{minVersion: VersionTLS13, cipherSuites: [TLS_AES_128_GCM_SHA256]}}\n"),
            "may not be specified when `minVersion` is 'VersionTLS13'",
        ),
        ("TLS 1.1", format!("{JOBSET}tls: {{minVersion: VersionTLS11}}\n"), "tls.minVersion"),
        (
            "a port that is none",
            format!("{JOBSET}webhook: {{port: nine}}\n"),
            "webhook.port: Invalid value: \"nine\"",
        ),
        (
            "a key of the other version",
            format!("{KUEUE2}waitForPodsReady: {{enable: true}}\n"),
            "waitForPodsReady.enable: unknown key",
        ),
        (
            "a word",
            format!("{KUEUE1}fairSharing: {{enable: true, preemptionStrategies: [No]}}\n"),
            "fairSharing.preemptionStrategies[0]",
        ),
        ("a name to listen on", format!("{KUEUE1}webhook: {{host: localhost}}\n"), "names are not resolved"),
        (
            "too few workers",
            format!("{TRAINER}controller: {{groupKindConcurrency: {{TrainJob.trainer.kubeflow.org: 0}}}}\n"),
            "must be greater than 0",
        ),
        (
            "workers of what nobody knows",
            format!("{TRAINER}controller:\n  groupKindConcurrency:\n    TrainJob: 5\n"),
            "line 5: controller.groupKindConcurrency.TrainJob: unknown key; known are \
             TrainJob.trainer.kubeflow.org, TrainingRuntime",
        ),
        (
            "a gate of others",
            format!("{TRAINER}featureGates:\n  TrainJobState: true\n"),
            "line 4: featureGates.TrainJobState: unknown key; did you mean `TrainJobStatus`?",
        ),
        (
            "a port that is none",
            format!("{TRAINER}statusServer: {{port: 70000}}\n"),
            "line 3: statusServer.port: Invalid value: 70000: must be between 1 and 65535",
        ),
        (
            "less than no calls",
            format!("{TRAINER}clientConnection: {{qps: -1}}\n"),
            "clientConnection.qps: Invalid value: -1: must be greater than or equal to 0",
        ),
    ] {
        let error = for_operator(&text).expect_err(says);
        assert!(error.contains(words), "{says}: {error}");
    }
    let off = format!("{JOBSET}internalCertManagement: {{enable: false, webhookServiceName: A_b}}\n");
    assert!(for_operator(&off).is_ok(), "unused names are not validated");
}

/// The configuration files of the upstream releases, by their fields.
#[test]
fn upstream_defaults_are_accepted_and_ignored_keys_are_logged() {
    let text = format!(
        "{KUEUE1}health: {{healthProbeBindAddress: ':8081'}}\nmetrics: {{bindAddress: ':8443'}}\nwebhook: {{port: 9443}}\n\
         leaderElection: {{leaderElect: true, resourceName: c1f6bfd2.kueue.x-k8s.io}}\n\
         controller: {{groupKindConcurrency: {{Job.batch: 5, Pod: 5}}}}\nclientConnection: {{qps: 50, burst: 100}}\n\
         waitForPodsReady: {{enable: true, timeout: 5m, recoveryTimeout: 0s}}\n\
         integrations: {{frameworks: [batch/job, pod], podOptions: {{podSelector: {{matchExpressions: [{{key: a, operator: NotIn, values: [b]}}]}}}}}}\n\
         ---\n{TRAINER}certManagement: {{enable: true}}\nmetrics: {{bindAddress: ':9999', secureServing: true}}\nfeatureGates: {{TrainJobStatus: true}}\n\
         controller: {{groupKindConcurrency: {{TrainJob.trainer.kubeflow.org: 9, TrainingRuntime.trainer.kubeflow.org: 1}}}}\n\
         statusServer: {{port: 10443, qps: 5}}\n\
         ---\n{JOBSET}featureGates: {{InPlaceRestart: true}}\nclientConnection: {{qps: 500}}\nhealth: {{healthProbeBindAddress: ':8082'}}\n"
    );
    let file = for_operator(&text).unwrap();
    assert_eq!(file.gates, [("InPlaceRestart".to_owned(), true), ("TrainJobStatus".to_owned(), true)]);
    let address = |text: &str| Some(text.parse().unwrap());
    assert_eq!(file.upstream.health, Some(address("0.0.0.0:8082")), "JobSet's counts before Kueue's");
    assert_eq!(file.upstream.metrics, Some(address("0.0.0.0:8443")), "and Kueue's before Trainer's");
    assert_eq!(file.documents.queueing.as_ref().unwrap().str_at(&["waitForPodsReady", "timeout"]), "5m");
    assert!(file.documents.training.is_some());
    let want = [
        "jobset: clientConnection: not needed, requests in flight are limited instead",
        "kueue: leaderElection.leaderElect: not needed, leader election is always on; \
         leaderElection.resourceName: not used, `muster install` names the objects; \
         controller, clientConnection: not needed, requests in flight are limited instead",
        "trainer: metrics.secureServing: not supported, metrics are served over plain HTTP; \
         controller.groupKindConcurrency.TrainingRuntime.trainer.kubeflow.org: \
         not needed, requests in flight are limited instead; \
         certManagement.enable: not needed, the operator generates and rotates its certificates",
    ];
    assert_eq!(file.warnings, want);
    let up = for_up(&text).unwrap();
    assert!(
        up.warnings[1].ends_with("; webhook, leaderElection, metrics, health: only for `muster operator`"),
        "{:?}",
        up.warnings
    );
    assert!(up.warnings[0].ends_with("; health: only for `muster operator`"), "{:?}", up.warnings);
    assert!(
        up.warnings[2].ends_with("; metrics, certManagement, statusServer: only for `muster operator`"),
        "{:?}",
        up.warnings
    );
    assert_eq!(up.gates, file.gates);
}

#[test]
fn trainjob_settings_are_parsed() {
    let text = format!(
        "{OURS}trainjob: {{deadlineClock: active, registry: images.example, dataCache: true}}\n---\n{TRAINER}\
         controller: {{groupKindConcurrency: {{TrainJob.trainer.kubeflow.org: 9}}}}\n\
         statusServer: {{port: 10444, qps: 2.5, burst: 3}}\n"
    );
    let said = |text: &str| {
        let file = for_operator(text).unwrap();
        crate::training::settings(&file.config.trainjob, &file.documents, CLUSTER_DELETIONS_MAX)
    };
    let want = TrainJobSettings {
        clock: DeadlineClock::Active,
        deletions_max: 9,
        registry: "images.example".to_owned(),
        data_cache: true,
        status_port: 10444,
        status_rate_limit: ProgressRateLimit { interval: Duration::from_millis(400), burst: 3 },
    };
    assert_eq!(said(&text), want);
    let want = TrainJobSettings {
        clock: DeadlineClock::Auto,
        deletions_max: CLUSTER_DELETIONS_MAX,
        registry: String::new(),
        data_cache: false,
        status_port: 10443,
        status_rate_limit: ProgressRateLimit { interval: Duration::from_millis(200), burst: 10 },
    };
    assert_eq!(said(""), want, "as Trainer has it");
    let zero = said(&format!("{TRAINER}statusServer: {{qps: 0, burst: 0}}\n"));
    assert_eq!(zero.status_rate_limit, want.status_rate_limit, "nothing is said by it");
    assert_eq!(
        said(&format!("{OURS}trainjob: {{deadlineClock: creation}}\n")).clock,
        DeadlineClock::Creation
    );
}

#[test]
fn our_own_document_may_configure_queues() {
    let text = format!(
        "{OURS}queueing: {{waitForPodsReady: {{timeout: 5m}}, multiKueue: {{origin: x}}, \
         integrations: {{frameworks: [pod, ray.io/rayjob], podOptions: {{podSelector: {{}}}}}}, \
         resources: {{transformations: [{{input: a, multiplyBy: b}}]}}}}\n"
    );
    let file = for_up(&text).unwrap();
    assert_eq!(file.documents.queueing.as_ref().unwrap().str_at(&["waitForPodsReady", "timeout"]), "5m");
    let want = [
        "queueing: multiKueue: not supported, Workloads are queued for one cluster",
        "queueing: integrations.frameworks: ray.io/rayjob: not supported",
    ];
    assert_eq!(file.warnings, want);
    let read = crate::queues::settings(&file.documents, "muster-system").unwrap();
    assert_eq!(read.wait_for_pods_ready.map(|it| it.timeout.as_secs()), Some(300));
    assert_eq!(read.frameworks, ["pod"]);
}

/// Shows: 976-06.
#[test]
fn system_namespaces_are_never_managed() {
    let all = "{matchLabels: {}}";
    for (says, text, words) in [
        (
            "managed namespaces",
            format!("{KUEUE2}managedJobsNamespaceSelector: {all}\n"),
            "line 3: managedJobsNamespaceSelector: Invalid value: {\"matchLabels\":{}}: should not match the \
             \"kube-system\" namespace: leave it out with {key: kubernetes.io/metadata.name",
        ),
        (
            "those of pods",
            format!("{KUEUE1}integrations: {{podOptions: {{namespaceSelector: {all}}}}}\n"),
            "integrations.podOptions.namespaceSelector: Invalid value",
        ),
        (
            "ours",
            format!("{OURS}queueing: {{managedJobsNamespaceSelector: {all}}}\n"),
            "queueing.managedJobsNamespaceSelector: Invalid value",
        ),
        (
            "an expression without values",
            format!(
                "{KUEUE2}managedJobsNamespaceSelector: {{matchExpressions: [{{key: a, operator: In}}]}}\n"
            ),
            "managedJobsNamespaceSelector.matchExpressions[0].values: Required value",
        ),
    ] {
        let error = for_operator(&text).expect_err(says);
        assert!(error.contains(words), "{says}: {error}");
    }
    let other =
        "{matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system]}]}";
    let file = for_up(&format!("{OURS}queueing: {{managedJobsNamespaceSelector: {other}}}\n")).unwrap();
    let error = crate::queues::settings(&file.documents, "home").unwrap_err().to_string();
    assert!(
        error.starts_with("configuration: queueing.managedJobsNamespaceSelector: Invalid value"),
        "{error}"
    );
    assert!(error.contains("should not match the \"home\" namespace"), "{error}");
}

/// The reference documents exactly the keys of our own document.
#[test]
fn the_reference_documents_every_key() {
    let reference = include_str!("../../../../docs/reference.md");
    let chapter = reference.split("\n## The configuration file\n").nth(1).expect("there is a chapter");
    let chapter = chapter.split("\n## ").next().unwrap();
    let rows = chapter.lines().filter(|line| line.starts_with("| `"));
    let named: BTreeSet<&str> = rows
        .flat_map(|row| row.split('|').nth(1).unwrap().split('`'))
        .map(str::trim)
        .filter(|it| !it.is_empty() && *it != ",")
        .collect();
    let ours: Vec<String> = shape::paths(&muster::FIELDS);
    let ours: BTreeSet<&str> =
        ours.iter().map(String::as_str).filter(|path| !path.starts_with("queueing.")).collect();
    assert_eq!(named, ours.into_iter().chain(["queueing"]).collect());
}

#[test]
fn the_example_configuration_is_valid() {
    let text = include_str!("../../../../examples/operator-config.yaml");
    let file = for_operator(text).unwrap();
    assert!(
        file.config.health.listen.is_some() && file.documents.queueing.is_some() && !file.gates.is_empty()
    );
}

/// Whether a table has a key path; `[]` and `{}` end the name of a list and of a map.
fn has_key(shape: &Shape, path: &str) -> bool {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let name = first.trim_end_matches(['[', ']', '{', '}']);
    let Shape::Fields(fields) = shape else { return matches!(shape, Shape::Anything) };
    let Some(field) = fields.iter().find(|field| field.name == name) else { return false };
    let below = match field.shape {
        Shape::List(of) | Shape::Map(of) if first != name => *of,
        of => of,
    };
    rest.is_none_or(|rest| has_key(&below, rest))
}

/// The keys were printed by `keys/main.go` from the Go types that read the files of these releases.
#[test]
fn every_key_of_published_configuration_files_is_known() {
    for (version, keys) in [
        (kueue::V1, include_str!("keys/kueue-0.18-v1beta1.txt")),
        (kueue::V2, include_str!("keys/kueue-0.18-v1beta2.txt")),
        (kueue::V1, include_str!("keys/kueue-0.19-v1beta1.txt")),
        (kueue::V2, include_str!("keys/kueue-0.19-v1beta2.txt")),
        (jobset::VERSION, include_str!("keys/jobset-0.10.txt")),
        (jobset::VERSION, include_str!("keys/jobset-0.12.txt")),
        (trainer::VERSION, include_str!("keys/trainer-2.3.txt")),
    ] {
        let foreign = UPSTREAM_KINDS.iter().find(|it| it.version == version).unwrap();
        let unknown: Vec<&str> =
            keys.lines().filter(|key| !has_key(&Shape::Fields(foreign.fields), key)).collect();
        assert!(!keys.is_empty() && unknown.is_empty(), "{version}: {unknown:?}");
    }
}

#[test]
fn ignored_keys_of_kueue_are_logged_with_a_reason() {
    let document = muster_tree::tree!({
        "visibilityServer": {"bindPort": 8082},
        "metrics": {"localQueueMetrics": {"enable": true}, "customLabels": [{"name": "team"}]},
        "resources": {"quotaCheckStrategy": "IgnoreUndeclared"},
        "tls": {"minVersion": "VersionTLS13", "curvePreferences": ["X25519"]},
    });
    let mut wrong = Vec::new();
    shape::check(&Shape::Fields(&kueue::V1BETA2), &document, "", &mut wrong);
    assert_eq!(wrong, []);
    let told = shape::ignored_keys("kueue", &Shape::Fields(&kueue::V1BETA2), &document).unwrap();
    for key in [
        "visibilityServer",
        "metrics.localQueueMetrics",
        "metrics.customLabels",
        "resources.quotaCheckStrategy",
        "tls.curvePreferences",
    ] {
        assert!(told.contains(key), "{key}: {told}");
    }
    assert!(!told.contains("minVersion"), "{told}");
}
