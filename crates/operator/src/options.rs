//! The operator's options, resolved from flags, the configuration file and defaults, in that precedence.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use muster_api::client::Kind;
use muster_api::environment::Clock;
use muster_api::gang::{EnabledMarkers, GangApi, GangSupport};
use muster_api::kinds;
use muster_apiserver::http::serving_cert::TlsOptions;
use muster_cluster::{DEFAULT_NAMESPACE, Projection};
use muster_control::Controller;
use muster_control::jobsets::{ExclusivePlacementController, JobSetController};
use muster_control::pod_groups::PodGroupController;
use muster_control::queueing::QueueController;
use muster_control::queueing::visibility_query::VisibilityHandle;
use muster_control::schedule::{Packing, SchedulerController};
use muster_control::training::{ProgressEndpoint, TrainJobController, may_be_generated};
use muster_jobset::admission::AdmissionSettings;
use muster_queue::kinds::config::QueueConfig as QueueSettings;

use super::OperatorError;
use super::admin_server::AdminAddresses;
use crate::certificates::{CertificateLifetimes, ServiceRef};
use crate::config::{ConfigDuration, ConfigFile, UpstreamDocuments, WEBHOOK_PORT};
use crate::discovery::RequiredCapabilities;
use crate::flags::{LogFormat, LogLevel, OperatorFlags};
use crate::gates;
use crate::names;
use crate::ports::{SystemClock, SystemEntropy};
use crate::progress_api::rate_limit::ProgressRateLimit;
use crate::queues;
use crate::training;
use crate::webhooks::{AdmissionHandlers, ServiceServerOptions};

/// The controllers that complement kube-controller-manager and kube-scheduler.
const CONTROLLERS: [&str; 5] = [SCHEDULER, JOBSET, POD_GROUP, QUEUE, TRAINER];
/// The admission steps that the operator serves as webhooks.
const ADMISSION: [&str; 3] = [JOBSET, QUEUE, TRAINER];
pub const JOBSET: &str = "jobset";
const SCHEDULER: &str = "scheduler";
const POD_GROUP: &str = "podgroup";
pub const QUEUE: &str = "queue";
const TRAINER: &str = "trainer";
/// Warning: training pods cannot reach the progress endpoint of an operator that has no Service.
const STATUS_SERVER_NEEDS_SERVICE: &str =
    "featureGates.TrainJobStatus: only behind a Service (`webhook.service`)";
/// Downward API variable with the pod's namespace.
const NAMESPACE_VARIABLE: &str = "POD_NAMESPACE";
/// Downward API variable with the pod's name.
const POD_VARIABLE: &str = "POD_NAME";

/// How the API server reaches the webhooks: the two forms of a webhook `clientConfig`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookEndpoint {
    /// By `url`: the leader registers the address that it listens on.
    Url,
    /// By `service`, a Service of this name in the operator's namespace: every replica answers, with the certificate that the
    /// leader rotates in a Secret.
    Service(String),
}

/// Options of the progress endpoint, Trainer's `statusServer`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusServerOptions {
    pub address: SocketAddr,
    /// Scheme, host and port by which pods reach any replica.
    pub server: String,
    /// How often reports are written to the API server.
    pub rate_limit: ProgressRateLimit,
}

pub struct OperatorOptions {
    /// Path of the kubeconfig; in-cluster or kubectl's default without it.
    pub kubeconfig: Option<PathBuf>,
    /// The namespace of the Lease, the Secret and the Service.
    pub namespace: String,
    /// The name of the operator's pod, when it runs in one.
    pub pod: Option<String>,
    pub controllers: BTreeSet<String>,
    /// Admission steps to serve.
    pub admission: BTreeSet<String>,
    pub jobset_settings: AdmissionSettings,
    pub queues: QueueSettings,
    pub training: training::TrainJobSettings,
    /// Whether training pods report progress (`TrainJobStatus`).
    pub reports_progress: bool,
    /// The resources that the scheduler packs nodes by.
    pub packing: Packing,
    pub webhook_address: SocketAddr,
    pub webhook_endpoint: WebhookEndpoint,
    /// Addresses of probes, metrics and the debug dump.
    pub admin: AdminAddresses,
    /// TLS options of the webhooks behind a Service.
    pub tls: TlsOptions,
    /// Lifetimes of their CA and serving certificates.
    pub lifetimes: CertificateLifetimes,
    /// The upstream documents of the file, for the debug log.
    pub documents: UpstreamDocuments,
    /// Warnings about keys that have no effect.
    pub warnings: Vec<String>,
    /// How much to log.
    pub log_level: LogLevel,
    /// How log lines look.
    pub log_format: LogFormat,
}

impl OperatorOptions {
    /// Resolves flags over the file over defaults; `variable` reads the environment.
    ///
    /// # Errors
    /// An unknown controller, admission step or gate; invalid lifetimes; a debug address that is not loopback.
    pub fn resolve(
        flags: &OperatorFlags,
        file: ConfigFile,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<OperatorOptions, OperatorError> {
        let shows = admin_addresses(flags, &file).checked()?;
        let gates = feature_gates(flags, &file)?;
        let settings = AdmissionSettings {
            gates: gates::jobset_gates(&gates),
            reject_overrides: file.config.resource_claims.reject_overrides,
        };
        let lives = lifetimes(flags, &file)?;
        let (reached, webhooks, note) = webhook_endpoint(flags, &file);
        let ConfigFile { config: ours, documents: kept, tls, warnings: mut notes, .. } = file;
        notes.extend(note);
        let reports = gates::train_job_status(&gates);
        notes.extend(
            (reports && reached == WebhookEndpoint::Url).then(|| STATUS_SERVER_NEEDS_SERVICE.to_owned()),
        );
        let list = |flag: &Option<String>, file: Option<Vec<String>>| {
            flag.clone().or_else(|| file.map(|words| words.join(","))).unwrap_or_else(|| "*".to_owned())
        };
        let namespace = flags.namespace.clone().or(ours.namespace).or_else(|| variable(NAMESPACE_VARIABLE));
        let controllers = list(&flags.controllers, ours.controllers);
        let admission = list(&flags.admission, ours.admission);
        let namespace = namespace.unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
        Ok(OperatorOptions {
            kubeconfig: flags.kubeconfig.clone().or(ours.kubeconfig),
            queues: queues::settings(&kept, &namespace)?,
            training: training::settings(&ours.trainjob, &kept, training::CLUSTER_DELETIONS_MAX),
            reports_progress: reports,
            namespace,
            pod: variable(POD_VARIABLE).filter(|it| !it.is_empty()),
            controllers: names::select("controller", &controllers, &CONTROLLERS)?,
            admission: names::select("admission step", &admission, &ADMISSION)?,
            jobset_settings: settings,
            packing: ours.packing.unwrap_or_default().into(),
            webhook_address: webhooks,
            webhook_endpoint: reached,
            admin: shows,
            tls: tls.unwrap_or_default(),
            lifetimes: lives,
            documents: kept,
            warnings: notes,
            log_level: flags.log_level.or(ours.log_level).unwrap_or(LogLevel::Warn),
            log_format: flags.log_format.or(ours.log_format).unwrap_or(LogFormat::Text),
        })
    }

    /// Options of the webhook server, if there is a Service. The progress endpoint needs it too: it shares the certificate.
    pub fn webhook_server(&self) -> Option<ServiceServerOptions> {
        let service = self.service()?;
        let manner = ServiceServerOptions {
            address: self.webhook_address,
            service,
            tls: self.tls.clone(),
            lifetimes: self.lifetimes,
        };
        (!self.admission_handlers().is_empty() || self.status_server().is_some()).then_some(manner)
    }

    fn service(&self) -> Option<ServiceRef> {
        let WebhookEndpoint::Service(name) = &self.webhook_endpoint else { return None };
        Some(ServiceRef { namespace: self.namespace.clone(), name: name.clone() })
    }

    /// Options of the progress endpoint, if it is enabled: another port of the webhook Service.
    pub fn status_server(&self) -> Option<StatusServerOptions> {
        let (host, port) = (self.service()?.host(), self.training.status_port);
        let hears = StatusServerOptions {
            address: SocketAddr::new(self.webhook_address.ip(), port),
            server: format!("https://{host}:{port}"),
            rate_limit: self.training.status_rate_limit,
        };
        (self.reports_progress && self.controllers.contains(TRAINER)).then_some(hears)
    }

    /// The admission handlers to run. Queue admission needs the queue controller, or nothing would ever resume what it
    /// suspends; TrainJob admission needs the TrainJob controller.
    pub fn admission_handlers(&self) -> AdmissionHandlers {
        let both = |name: &str| [&self.controllers, &self.admission].iter().all(|on| on.contains(name));
        AdmissionHandlers {
            jobsets: self.admission.contains(JOBSET).then_some(self.jobset_settings),
            queues: both(QUEUE).then(|| Arc::new(queues::admission(&self.queues))),
            training: both(TRAINER),
        }
    }

    /// Warnings about enabled controllers whose dependencies are disabled.
    pub fn missing_dependencies(&self) -> Vec<String> {
        names::missing_dependencies(&self.controllers, &CONTROLLERS)
    }

    /// Whether JobSets are controlled or admitted.
    pub fn handles_jobsets(&self) -> bool {
        self.controllers.contains(JOBSET) || self.admission.contains(JOBSET)
    }

    pub fn required_capabilities(&self) -> RequiredCapabilities {
        let runs = |name: &&str| self.controllers.contains(*name);
        let gangs = [SCHEDULER, POD_GROUP, JOBSET, QUEUE, TRAINER].iter().any(runs);
        let training = runs(&TRAINER);
        RequiredCapabilities {
            jobsets: self.handles_jobsets() || training,
            gangs,
            queues: runs(&QUEUE),
            training,
        }
    }

    /// Watch projections that bound the caches: of ConfigMaps, which a cluster has many of, only those that TrainJobs may own;
    /// of Secrets only the metadata, so that their contents are never sent.
    pub fn projections() -> [(Kind, Projection); 2] {
        let maps = Projection::Filtered(may_be_generated);
        [(kinds::CONFIG_MAPS.clone(), maps), (kinds::SECRETS.clone(), Projection::MetadataOnly)]
    }

    /// The enabled controllers, for this ResourceClaim version, gang API and progress endpoint. The protection controller of
    /// PodGroups runs only for our own CRDs: a cluster with native PodGroups protects them itself.
    pub fn controllers(
        &self,
        claims: Option<Kind>,
        gangs: Option<GangSupport>,
        reporting: Option<ProgressEndpoint>,
        desk: &VisibilityHandle,
    ) -> Vec<Box<dyn Controller>> {
        let form = gangs.map_or(GangApi::Own, |it| it.api);
        let reads =
            EnabledMarkers { groups: gangs.is_some(), entries: gangs.is_some(), ..EnabledMarkers::default() };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let mut all: Vec<Box<dyn Controller>> = vec![
            Box::new(SchedulerController::beside_another().gangs(form, reads).packing(self.packing)),
            Box::<ExclusivePlacementController>::default(),
            Box::new(JobSetController::new(self.jobset_settings.gates, claims).gangs(gangs)),
            Box::new(
                QueueController::new(queues::controller_settings(&self.queues, &clock, desk.clone()))
                    .gangs(gangs),
            ),
            Box::new(TrainJobController::new(
                training::controller_settings(&self.training, gangs, reporting),
                Arc::new(SystemEntropy),
            )),
        ];
        if gangs.is_some() && form == GangApi::Own {
            all.push(Box::new(PodGroupController::new(form)));
        }
        all.into_iter().filter(|one| self.controllers.contains(one.name())).collect()
    }
}

/// Optional components that `muster install` includes for a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionalComponents {
    /// The queue controller and its admission are enabled.
    pub queues: bool,
    pub training: bool,
    /// TrainJobs and runtimes are admitted by webhooks.
    pub validates_training: bool,
    /// The port of the progress endpoint, if it is enabled.
    pub status_port: Option<u16>,
}

impl Default for OptionalComponents {
    fn default() -> OptionalComponents {
        OptionalComponents::of(&ConfigFile::default())
    }
}

impl OptionalComponents {
    /// The components that this configuration enables.
    pub fn of(file: &ConfigFile) -> OptionalComponents {
        let on = |list: &Option<Vec<String>>, known: &[&'static str], name: &str| {
            let words = list.as_ref().map_or_else(|| "*".to_owned(), |it| it.join(","));
            names::select("part", &words, known).is_ok_and(|it| it.contains(name))
        };
        let runs = |name: &str| on(&file.config.controllers, &CONTROLLERS, name);
        let admits = |name: &str| on(&file.config.admission, &ADMISSION, name);
        let reports =
            feature_gates(&OperatorFlags::default(), file).is_ok_and(|it| gates::train_job_status(&it));
        let port =
            training::settings(&file.config.trainjob, &file.documents, training::CLUSTER_DELETIONS_MAX)
                .status_port;
        OptionalComponents {
            queues: runs(QUEUE) && admits(QUEUE),
            training: runs(TRAINER),
            validates_training: admits(TRAINER),
            status_port: (reports && runs(TRAINER)).then_some(port),
        }
    }
}

fn admin_addresses(flags: &OperatorFlags, file: &ConfigFile) -> AdminAddresses {
    let (ours, brought) = (&file.config, &file.upstream);
    AdminAddresses {
        health: flags.health_listen.or(ours.health.listen).or(brought.health.flatten()),
        metrics: flags.metrics_listen.or(ours.metrics.listen).or(brought.metrics.flatten()),
        debug: flags.debug_listen.or(ours.debug.listen),
    }
}

fn feature_gates(flags: &OperatorFlags, file: &ConfigFile) -> Result<gates::FeatureGates, OperatorError> {
    let brought = file.gates.iter().map(|(name, on)| (name.as_str(), *on));
    let ours = file.config.feature_gates.iter().map(|(name, on)| (name.as_str(), *on));
    let asked = gates::parse(flags.feature_gates.as_deref().unwrap_or_default())?;
    Ok(gates::resolve(brought.chain(ours).chain(asked))?)
}

fn lifetimes(flags: &OperatorFlags, file: &ConfigFile) -> Result<CertificateLifetimes, OperatorError> {
    let (ours, default) = (file.config.webhook.certificates, CertificateLifetimes::default());
    let said = |flag: Option<Duration>, filed: Option<ConfigDuration>| flag.or(filed.map(|it| it.0));
    let lives = CertificateLifetimes {
        ca: said(flags.authority_lifetime, ours.authority).unwrap_or(default.ca),
        serving: said(flags.certificate_lifetime, ours.serving).unwrap_or(default.serving),
        propagation_delay: said(flags.authority_pause, ours.pause).unwrap_or(default.propagation_delay),
    };
    lives.check().map_err(OperatorError::Lifetimes)?;
    Ok(lives)
}

/// How webhooks are reached, where they listen, and a warning about keys that have no effect.
fn webhook_endpoint(
    flags: &OperatorFlags,
    file: &ConfigFile,
) -> (WebhookEndpoint, SocketAddr, Option<String>) {
    let ours = &file.config.webhook;
    let asked = flags.webhook_listen.or(ours.listen);
    let Some(name) = flags.webhook_service.clone().or_else(|| ours.service.clone()) else {
        let vain = "webhook.host and webhook.port of others: used only behind a Service (`webhook.service`)";
        let note = file.upstream.webhooks.filter(|_| asked.is_none()).map(|_| vain.to_owned());
        return (WebhookEndpoint::Url, asked.unwrap_or_else(|| (Ipv4Addr::LOCALHOST, 0).into()), note);
    };
    let listen = asked.or(file.upstream.webhooks);
    (
        WebhookEndpoint::Service(name),
        listen.unwrap_or_else(|| (Ipv6Addr::UNSPECIFIED, WEBHOOK_PORT).into()),
        None,
    )
}

#[cfg(test)]
mod tests {
    use muster_trainer::controller::DeadlineClock;

    use super::*;
    use crate::config::{Command, parse};

    const OURS: &str = "apiVersion: muster.dev/v1alpha1\nkind: Configuration\n";
    const GATE: &str = "featureGates: {TrainJobStatus: true}";
    const JOBSET_FILE: &str = "---\napiVersion: config.jobset.x-k8s.io/v1alpha1\nkind: Configuration\n";

    fn wanted(flags: &OperatorFlags, ours: &str, jobset: &str) -> Result<OperatorOptions, OperatorError> {
        let text = format!("{OURS}{ours}\n{JOBSET_FILE}{jobset}\n");
        let file = parse(&text, Command::Operator).unwrap();
        OperatorOptions::resolve(flags, file, |name| {
            (name == NAMESPACE_VARIABLE).then(|| "of-the-pod".to_owned())
        })
    }

    #[test]
    fn flags_win_over_our_document_and_that_over_others() {
        let jobset = "featureGates: {RestartJob: true, InPlaceRestart: true, ElasticJobSet: true}\n\
            health: {healthProbeBindAddress: ':1'}\nmetrics: {bindAddress: ':2'}\nwebhook: {port: 3}";
        let ours = "featureGates: {RestartJob: false, InPlaceRestart: false}\nhealth: {listen: '127.0.0.1:4'}\n\
            webhook: {service: s}\nresourceClaims: {rejectOverrides: true}\npacking: nothing\nlogLevel: info";
        let none = OperatorFlags::default();
        let it = wanted(&none, ours, jobset).unwrap();
        let gates = it.jobset_settings.gates;
        assert_eq!((gates.restart_job, gates.in_place_restart, gates.elastic), (false, false, true));
        assert_eq!(it.admin.health, Some("127.0.0.1:4".parse().unwrap()));
        assert_eq!(it.admin.metrics, Some("0.0.0.0:2".parse().unwrap()));
        assert_eq!(it.webhook_endpoint, WebhookEndpoint::Service("s".to_owned()));
        assert_eq!(it.webhook_address, "0.0.0.0:3".parse().unwrap());
        assert!(it.jobset_settings.reject_overrides);
        assert_eq!((it.packing, it.log_level), (Packing::Nothing, LogLevel::Info));
        assert_eq!(it.namespace, "of-the-pod");
        let flags = OperatorFlags {
            feature_gates: Some("InPlaceRestart=true".to_owned()),
            health_listen: Some("127.0.0.1:5".parse().unwrap()),
            namespace: Some("asked".to_owned()),
            log_level: Some(LogLevel::Error),
            ..OperatorFlags::default()
        };
        let it = wanted(&flags, ours, jobset).unwrap();
        assert!(it.jobset_settings.gates.in_place_restart);
        assert_eq!(it.admin.health, flags.health_listen);
        assert_eq!((it.namespace.as_str(), it.log_level), ("asked", LogLevel::Error));
        let it = wanted(&none, "namespace: filed\ncontrollers: [scheduler]", jobset).unwrap();
        assert_eq!((it.namespace.as_str(), it.controllers.len()), ("filed", 1));
        let it = wanted(&none, "trainjob: {deadlineClock: active}", jobset).unwrap();
        assert_eq!(it.training.clock, DeadlineClock::Active);
        assert_eq!(it.webhook_address, "127.0.0.1:0".parse().unwrap());
        assert!(it.warnings.last().unwrap().contains("used only behind a Service"), "{:?}", it.warnings);
    }

    #[test]
    fn a_trainjob_controller_without_a_jobset_controller_is_warned_about() {
        let warned = |ours: &str| wanted(&OperatorFlags::default(), ours, "").unwrap().missing_dependencies();
        assert_eq!(warned(""), [""; 0]);
        let alone = warned("controllers: [trainer]");
        assert!(alone.len() == 1 && alone[0].contains("TrainJobs become JobSets"), "{alone:?}");
    }

    #[test]
    fn the_trainjob_configuration_applies_to_the_operator() {
        let it = wanted(&OperatorFlags::default(), "trainjob: {deadlineClock: active}", "").unwrap();
        assert_eq!(training::controller_settings(&it.training, None, None).clock, DeadlineClock::Active);
        assert!(it.warnings.is_empty(), "{:?}", it.warnings);
    }

    #[test]
    fn progress_is_reported_through_the_service() {
        let hears = |ours: &str| wanted(&OperatorFlags::default(), &format!("{GATE}\n{ours}"), "").unwrap();
        let alone = hears("");
        assert_eq!(
            (alone.status_server(), alone.warnings),
            (None, vec![STATUS_SERVER_NEEDS_SERVICE.to_owned()])
        );
        let it = hears("webhook: {service: s, listen: '127.0.0.1:9'}");
        assert_eq!(it.warnings, Vec::<String>::new());
        let there = it.status_server().unwrap();
        assert_eq!(there.address, "127.0.0.1:10443".parse().unwrap());
        assert_eq!(there.server, "https://s.of-the-pod.svc:10443");
        let nobody = hears("webhook: {service: s}\ncontrollers: ['*', '-trainer']");
        assert_eq!(nobody.status_server(), None, "the TrainJob controller is disabled");
        let unjudged = hears("webhook: {service: s}\nadmission: []");
        assert!(
            unjudged.admission_handlers().is_empty() && unjudged.webhook_server().is_some(),
            "a certificate is needed"
        );
        let off = wanted(&OperatorFlags::default(), "webhook: {service: s}", "").unwrap();
        assert_eq!(off.status_server(), None);
    }

    #[test]
    fn optional_components_follow_from_the_enabled_controllers() {
        let parts = |ours: &str| {
            OptionalComponents::of(&parse(&format!("{OURS}{ours}\n"), Command::Operator).unwrap())
        };
        let all =
            OptionalComponents { queues: true, training: true, validates_training: true, status_port: None };
        let reports = |port| OptionalComponents { status_port: Some(port), ..all };
        let port = "---\napiVersion: config.trainer.kubeflow.org/v1alpha1\nkind: Configuration\nstatusServer: {port: 7}";
        for (ours, want) in [
            ("", all),
            ("controllers: ['*', '-queue']", OptionalComponents { queues: false, ..all }),
            ("admission: ['*', '-queue']", OptionalComponents { queues: false, ..all }),
            ("controllers: ['*', '-trainer']", OptionalComponents { training: false, ..all }),
            ("admission: ['*', '-trainer']", OptionalComponents { validates_training: false, ..all }),
            (GATE, reports(10443)),
            (&format!("{GATE}\n{port}"), reports(7)),
            (port, all),
            (
                &format!("{GATE}\ncontrollers: ['*', '-trainer']"),
                OptionalComponents { training: false, ..all },
            ),
        ] {
            assert_eq!(parts(ours), want, "{ours}");
        }
        assert_eq!(OptionalComponents::default(), all);
    }

    #[test]
    fn unknown_names_and_a_reachable_debug_address_are_rejected() {
        let none = OperatorFlags::default();
        for (says, ours, jobset, words) in [
            (
                "a controller",
                "controllers: [job]",
                "",
                "known are scheduler, jobset, podgroup, queue, trainer",
            ),
            ("a gate of ours", "featureGates: {X: true}", "", "unknown feature gate `X`"),
            ("a gate of JobSet's", "", "featureGates: {X: true}", "unknown feature gate `X`"),
            ("one that stays", "", "featureGates: {TLSOptions: false}", "`TLSOptions` is always true"),
            (
                "certificates too long",
                "webhook: {certificates: {authority: 1h, serving: 2h}}",
                "",
                "cannot outlast",
            ),
            ("a dump for all", "debug: {listen: '0.0.0.0:6060'}", "", "the debug dump is not served"),
        ] {
            let error = wanted(&none, ours, jobset).err().expect(says).to_string();
            assert!(error.contains(words), "{says}: {error}");
        }
    }
}
