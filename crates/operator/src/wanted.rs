//! What an operator was asked for, after flags, file and defaults were put together.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use muster_api::gang::{Form, Gangs, Reads};
use muster_api::kinds;
use muster_api::port::Kind;
use muster_api::ports::Clock;
use muster_apiserver::http::serving::Tls;
use muster_cluster::{NAMESPACE, Share};
use muster_control::Controller;
use muster_control::jobsets::{Exclusive, JobSets};
use muster_control::podgroups::PodGroups;
use muster_control::queueing::Queueing;
use muster_control::queueing::desk::Desk;
use muster_control::schedule::{Packing, Schedule};
use muster_control::training::{Reporting, Training, may_be_made};
use muster_jobset::admission::Settings;
use muster_queue::kinds::config::Settings as QueueSettings;

use super::OperatorError;
use super::rim::Addresses;
use crate::certificates::{Lifetimes, Service};
use crate::config::{File, Kept, Span, WEBHOOK_PORT};
use crate::flags::{LogFormat, LogLevel, OperatorFlags};
use crate::gates;
use crate::names;
use crate::ports::{SystemClock, SystemEntropy};
use crate::queues;
use crate::reports::pace::Pace;
use crate::surroundings::Needs;
use crate::training;
use crate::webhooks::{Deciders, Manner};

/// The controllers that a cluster has none of its own for.
const CONTROLLERS: [&str; 5] = [SCHEDULER, JOBSET, POD_GROUP, QUEUE, TRAINER];
/// The admission steps that it has none of its own for.
const ADMISSION: [&str; 3] = [JOBSET, QUEUE, TRAINER];
pub const JOBSET: &str = "jobset";
const SCHEDULER: &str = "scheduler";
const POD_GROUP: &str = "podgroup";
pub const QUEUE: &str = "queue";
const TRAINER: &str = "trainer";
/// What is said of a gate that does nothing where pods do not reach the operator.
const UNHEARD: &str = "featureGates.TrainJobStatus: only behind a Service (`webhook.service`)";
/// The variable that tells a pod its namespace.
const NAMESPACE_VARIABLE: &str = "POD_NAMESPACE";
/// The one that tells it its name.
const POD_VARIABLE: &str = "POD_NAME";

/// How the API server reaches the webhooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reached {
    /// At the very address: whoever leads registers itself.
    Url,
    /// Through a Service of this name in the operator's namespace: every replica answers, with the certificate that
    /// the leader keeps in a Secret.
    Service(String),
}

/// Where what training tells of itself is heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hears {
    /// Where this replica listens.
    pub address: SocketAddr,
    /// Scheme, host and port by which pods reach any of them.
    pub server: String,
    /// How often it is written.
    pub pace: Pace,
}

/// What was asked for.
pub struct Wanted {
    /// The cluster to run beside.
    pub kubeconfig: Option<PathBuf>,
    /// The namespace of the Lease, the Secret and the Service.
    pub namespace: String,
    /// The pod it runs in, if it does.
    pub pod: Option<String>,
    /// Controllers to run.
    pub controllers: BTreeSet<String>,
    /// Admission steps to serve.
    pub admission: BTreeSet<String>,
    /// Switches of JobSets.
    pub settings: Settings,
    /// What is configured of queues.
    pub queues: QueueSettings,
    /// What is configured of TrainJobs.
    pub training: training::Configured,
    /// Whether training tells how far it is.
    pub reports: bool,
    /// What nodes are filled up by.
    pub packing: Packing,
    /// Where webhooks listen.
    pub webhooks: SocketAddr,
    /// How they are reached.
    pub reached: Reached,
    /// Where it shows itself.
    pub shows: Addresses,
    /// How they speak TLS behind a Service.
    pub tls: Tls,
    /// How long their certificates last there.
    pub lives: Lifetimes,
    /// Documents for parts that are not built in yet.
    pub kept: Kept,
    /// What stands in the file and does nothing, in words.
    pub notes: Vec<String>,
    /// How much to log.
    pub log_level: LogLevel,
    /// How log lines look.
    pub log_format: LogFormat,
}

impl Wanted {
    /// What these flags ask for, and the file where they say nothing; `variable` reads the environment.
    ///
    /// # Errors
    /// Unknown names, and a dump that others would see.
    pub fn of(
        flags: &OperatorFlags,
        file: File,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Wanted, OperatorError> {
        let shows = shows(flags, &file).checked()?;
        let gates = chosen(flags, &file)?;
        let settings = Settings {
            gates: gates::jobset(&gates),
            reject_overrides: file.ours.resource_claims.reject_overrides,
        };
        let lives = lifetimes(flags, &file)?;
        let (reached, webhooks, note) = webhooks(flags, &file);
        let File { ours, kept, tls, mut notes, .. } = file;
        notes.extend(note);
        let reports = gates::reports(&gates);
        notes.extend((reports && reached == Reached::Url).then(|| UNHEARD.to_owned()));
        let list = |flag: &Option<String>, file: Option<Vec<String>>| {
            flag.clone().or_else(|| file.map(|words| words.join(","))).unwrap_or_else(|| "*".to_owned())
        };
        let namespace = flags.namespace.clone().or(ours.namespace).or_else(|| variable(NAMESPACE_VARIABLE));
        let controllers = list(&flags.controllers, ours.controllers);
        let admission = list(&flags.admission, ours.admission);
        let namespace = namespace.unwrap_or_else(|| NAMESPACE.to_owned());
        Ok(Wanted {
            kubeconfig: flags.kubeconfig.clone().or(ours.kubeconfig),
            queues: queues::configured(&kept, &namespace)?,
            training: training::configured(&ours.trainjob, &kept, training::AT_ONCE),
            reports,
            namespace,
            pod: variable(POD_VARIABLE).filter(|it| !it.is_empty()),
            controllers: names::choose("controller", &controllers, &CONTROLLERS)?,
            admission: names::choose("admission step", &admission, &ADMISSION)?,
            settings,
            packing: ours.packing.unwrap_or_default().into(),
            webhooks,
            reached,
            shows,
            tls: tls.unwrap_or_default(),
            lives,
            kept,
            notes,
            log_level: flags.log_level.or(ours.log_level).unwrap_or(LogLevel::Warn),
            log_format: flags.log_format.or(ours.log_format).unwrap_or(LogFormat::Text),
        })
    }

    /// How webhooks are served, if that is behind a Service. What training tells of itself is heard with their certificate.
    pub fn behind(&self) -> Option<Manner> {
        let service = self.service()?;
        let manner = Manner { address: self.webhooks, service, tls: self.tls.clone(), lives: self.lives };
        (!self.deciders().is_empty() || self.hears().is_some()).then_some(manner)
    }

    fn service(&self) -> Option<Service> {
        let Reached::Service(name) = &self.reached else { return None };
        Some(Service { namespace: self.namespace.clone(), name: name.clone() })
    }

    /// Where what training tells of itself is heard, if it is: through the Service of the webhooks, at another port.
    pub fn hears(&self) -> Option<Hears> {
        let (host, port) = (self.service()?.host(), self.training.reports_port);
        let hears = Hears {
            address: SocketAddr::new(self.webhooks.ip(), port),
            server: format!("https://{host}:{port}"),
            pace: self.training.reports_pace,
        };
        (self.reports && self.controllers.contains(TRAINER)).then_some(hears)
    }

    /// Who decides what is admitted. Without the controller nobody would let go what is put into queues, so that
    /// nobody is; and who does not run TrainJobs does not judge them.
    pub fn deciders(&self) -> Deciders {
        let both = |name: &str| [&self.controllers, &self.admission].iter().all(|on| on.contains(name));
        Deciders {
            jobsets: self.admission.contains(JOBSET).then_some(self.settings),
            queues: both(QUEUE).then(|| Arc::new(queues::admission(&self.queues))),
            training: both(TRAINER),
        }
    }

    /// What is warned of at the start, in words.
    pub fn unserved(&self) -> Vec<String> {
        names::unserved(&self.controllers, &CONTROLLERS)
    }

    /// Whether anything is to be done about JobSets.
    pub fn jobsets(&self) -> bool {
        self.controllers.contains(JOBSET) || self.admission.contains(JOBSET)
    }

    /// What it has to know of the cluster.
    pub fn needs(&self) -> Needs {
        let runs = |name: &&str| self.controllers.contains(*name);
        let gangs = [SCHEDULER, POD_GROUP, JOBSET, QUEUE, TRAINER].iter().any(runs);
        let training = runs(&TRAINER);
        Needs { jobsets: self.jobsets() || training, gangs, queues: runs(&QUEUE), training }
    }

    /// Of which kinds the controllers take only a share: those of which a cluster has many, and TrainJobs few. Only whether a
    /// Secret is there counts, so that its contents are never sent.
    pub fn shares() -> [(Kind, Share); 2] {
        let maps = Share::Those(may_be_made);
        [(kinds::CONFIG_MAPS.clone(), maps), (kinds::SECRETS.clone(), Share::Metadata)]
    }

    /// The controllers, where device claims are called so, gangs are spelled so, and training tells of itself there. A
    /// cluster keeps its own groups while pods name them; those of our definitions are kept by us.
    pub fn controllers(
        &self,
        claims: Option<Kind>,
        gangs: Option<Gangs>,
        reporting: Option<Reporting>,
        desk: &Desk,
    ) -> Vec<Box<dyn Controller>> {
        let form = gangs.map_or(Form::Own, |it| it.form);
        let reads = Reads { groups: gangs.is_some(), entries: gangs.is_some(), ..Reads::default() };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let mut all: Vec<Box<dyn Controller>> = vec![
            Box::new(Schedule::beside_another().gangs(form, reads).packing(self.packing)),
            Box::<Exclusive>::default(),
            Box::new(JobSets::new(self.settings.gates, claims).gangs(gangs)),
            Box::new(Queueing::new(queues::control(&self.queues, &clock, desk.clone())).gangs(gangs)),
            Box::new(Training::new(
                training::control(&self.training, gangs, reporting),
                Arc::new(SystemEntropy),
            )),
        ];
        if gangs.is_some() && form == Form::Own {
            all.push(Box::new(PodGroups::new(form)));
        }
        all.into_iter().filter(|one| self.controllers.contains(one.name())).collect()
    }
}

/// What is installed for an operator besides what it always needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    /// Queues are run, and what is put into them is admitted.
    pub queues: bool,
    /// TrainJobs are run.
    pub training: bool,
    /// What is written of them is judged.
    pub judges_training: bool,
    /// The port at which it is heard how far they are, if it is.
    pub reports: Option<u16>,
}

impl Default for Parts {
    fn default() -> Parts {
        Parts::of(&File::default())
    }
}

impl Parts {
    /// What this file asks for.
    pub fn of(file: &File) -> Parts {
        let on = |list: &Option<Vec<String>>, known: &[&'static str], name: &str| {
            let words = list.as_ref().map_or_else(|| "*".to_owned(), |it| it.join(","));
            names::choose("part", &words, known).is_ok_and(|it| it.contains(name))
        };
        let runs = |name: &str| on(&file.ours.controllers, &CONTROLLERS, name);
        let admits = |name: &str| on(&file.ours.admission, &ADMISSION, name);
        let reports = chosen(&OperatorFlags::default(), file).is_ok_and(|it| gates::reports(&it));
        let port = training::configured(&file.ours.trainjob, &file.kept, training::AT_ONCE).reports_port;
        Parts {
            queues: runs(QUEUE) && admits(QUEUE),
            training: runs(TRAINER),
            judges_training: admits(TRAINER),
            reports: (reports && runs(TRAINER)).then_some(port),
        }
    }
}

/// Where it shows itself.
fn shows(flags: &OperatorFlags, file: &File) -> Addresses {
    let (ours, brought) = (&file.ours, &file.brought);
    Addresses {
        health: flags.health_listen.or(ours.health.listen).or(brought.health.flatten()),
        metrics: flags.metrics_listen.or(ours.metrics.listen).or(brought.metrics.flatten()),
        debug: flags.debug_listen.or(ours.debug.listen),
    }
}

/// All switches.
fn chosen(flags: &OperatorFlags, file: &File) -> Result<gates::Chosen, OperatorError> {
    let brought = file.gates.iter().map(|(name, on)| (name.as_str(), *on));
    let ours = file.ours.feature_gates.iter().map(|(name, on)| (name.as_str(), *on));
    let asked = gates::parse(flags.feature_gates.as_deref().unwrap_or_default())?;
    Ok(gates::with(brought.chain(ours).chain(asked))?)
}

/// How long certificates last.
fn lifetimes(flags: &OperatorFlags, file: &File) -> Result<Lifetimes, OperatorError> {
    let (ours, default) = (file.ours.webhook.certificates, Lifetimes::default());
    let said = |flag: Option<Duration>, filed: Option<Span>| flag.or(filed.map(|it| it.0));
    let lives = Lifetimes {
        authority: said(flags.authority_lifetime, ours.authority).unwrap_or(default.authority),
        serving: said(flags.certificate_lifetime, ours.serving).unwrap_or(default.serving),
        pause: said(flags.authority_pause, ours.pause).unwrap_or(default.pause),
    };
    lives.check().map_err(OperatorError::Lifetimes)?;
    Ok(lives)
}

/// How webhooks are reached, where they listen, and what of that was asked for in vain.
fn webhooks(flags: &OperatorFlags, file: &File) -> (Reached, SocketAddr, Option<String>) {
    let ours = &file.ours.webhook;
    let asked = flags.webhook_listen.or(ours.listen);
    let Some(name) = flags.webhook_service.clone().or_else(|| ours.service.clone()) else {
        let vain = "webhook.host and webhook.port of others: used only behind a Service (`webhook.service`)";
        let note = file.brought.webhooks.filter(|_| asked.is_none()).map(|_| vain.to_owned());
        return (Reached::Url, asked.unwrap_or_else(|| (Ipv4Addr::LOCALHOST, 0).into()), note);
    };
    let listen = asked.or(file.brought.webhooks);
    (Reached::Service(name), listen.unwrap_or_else(|| (Ipv6Addr::UNSPECIFIED, WEBHOOK_PORT).into()), None)
}

#[cfg(test)]
mod tests {
    use muster_trainer::life::DeadlineClock;

    use super::*;
    use crate::config::{Command, parse};

    const OURS: &str = "apiVersion: muster.dev/v1alpha1\nkind: Configuration\n";
    const GATE: &str = "featureGates: {TrainJobStatus: true}";
    const JOBSET_FILE: &str = "---\napiVersion: config.jobset.x-k8s.io/v1alpha1\nkind: Configuration\n";

    fn wanted(flags: &OperatorFlags, ours: &str, jobset: &str) -> Result<Wanted, OperatorError> {
        let text = format!("{OURS}{ours}\n{JOBSET_FILE}{jobset}\n");
        let file = parse(&text, Command::Operator).unwrap();
        Wanted::of(flags, file, |name| (name == NAMESPACE_VARIABLE).then(|| "of-the-pod".to_owned()))
    }

    #[test]
    fn flags_win_over_our_document_and_that_over_others() {
        let jobset = "featureGates: {RestartJob: true, InPlaceRestart: true, ElasticJobSet: true}\n\
            health: {healthProbeBindAddress: ':1'}\nmetrics: {bindAddress: ':2'}\nwebhook: {port: 3}";
        let ours = "featureGates: {RestartJob: false, InPlaceRestart: false}\nhealth: {listen: '127.0.0.1:4'}\n\
            webhook: {service: s}\nresourceClaims: {rejectOverrides: true}\npacking: nothing\nlogLevel: info";
        let none = OperatorFlags::default();
        let it = wanted(&none, ours, jobset).unwrap();
        let gates = it.settings.gates;
        assert_eq!((gates.restart_job, gates.in_place_restart, gates.elastic), (false, false, true));
        assert_eq!(it.shows.health, Some("127.0.0.1:4".parse().unwrap()));
        assert_eq!(it.shows.metrics, Some("0.0.0.0:2".parse().unwrap()));
        assert_eq!(it.reached, Reached::Service("s".to_owned()));
        assert_eq!(it.webhooks, "0.0.0.0:3".parse().unwrap());
        assert!(it.settings.reject_overrides);
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
        assert!(it.settings.gates.in_place_restart);
        assert_eq!(it.shows.health, flags.health_listen);
        assert_eq!((it.namespace.as_str(), it.log_level), ("asked", LogLevel::Error));
        let it = wanted(&none, "namespace: filed\ncontrollers: [scheduler]", jobset).unwrap();
        assert_eq!((it.namespace.as_str(), it.controllers.len()), ("filed", 1));
        let it = wanted(&none, "trainjob: {deadlineClock: active}", jobset).unwrap();
        assert_eq!(it.training.clock, DeadlineClock::Active);
        assert_eq!(it.webhooks, "127.0.0.1:0".parse().unwrap());
        assert!(it.notes.last().unwrap().contains("used only behind a Service"), "{:?}", it.notes);
    }

    #[test]
    fn train_jobs_without_a_controller_of_jobsets_are_warned_of() {
        let warned = |ours: &str| wanted(&OperatorFlags::default(), ours, "").unwrap().unserved();
        assert_eq!(warned(""), [""; 0]);
        let alone = warned("controllers: [trainer]");
        assert!(alone.len() == 1 && alone[0].contains("TrainJobs become JobSets"), "{alone:?}");
    }

    #[test]
    fn what_is_said_of_train_jobs_counts_on_a_cluster_too() {
        let it = wanted(&OperatorFlags::default(), "trainjob: {deadlineClock: active}", "").unwrap();
        assert_eq!(training::control(&it.training, None, None).clock, DeadlineClock::Active);
        assert!(it.notes.is_empty(), "{:?}", it.notes);
    }

    #[test]
    fn training_is_heard_through_the_service() {
        let hears = |ours: &str| wanted(&OperatorFlags::default(), &format!("{GATE}\n{ours}"), "").unwrap();
        let alone = hears("");
        assert_eq!((alone.hears(), alone.notes), (None, vec![UNHEARD.to_owned()]));
        let it = hears("webhook: {service: s, listen: '127.0.0.1:9'}");
        assert_eq!(it.notes, Vec::<String>::new());
        let there = it.hears().unwrap();
        assert_eq!(there.address, "127.0.0.1:10443".parse().unwrap());
        assert_eq!(there.server, "https://s.of-the-pod.svc:10443");
        let nobody = hears("webhook: {service: s}\ncontrollers: ['*', '-trainer']");
        assert_eq!(nobody.hears(), None, "nobody runs TrainJobs");
        let unjudged = hears("webhook: {service: s}\nadmission: []");
        assert!(unjudged.deciders().is_empty() && unjudged.behind().is_some(), "a certificate is needed");
        let off = wanted(&OperatorFlags::default(), "webhook: {service: s}", "").unwrap();
        assert_eq!(off.hears(), None);
    }

    #[test]
    fn what_is_installed_follows_from_what_is_run() {
        let parts = |ours: &str| Parts::of(&parse(&format!("{OURS}{ours}\n"), Command::Operator).unwrap());
        let all = Parts { queues: true, training: true, judges_training: true, reports: None };
        let reports = |port| Parts { reports: Some(port), ..all };
        let port = "---\napiVersion: config.trainer.kubeflow.org/v1alpha1\nkind: Configuration\nstatusServer: {port: 7}";
        for (ours, want) in [
            ("", all),
            ("controllers: ['*', '-queue']", Parts { queues: false, ..all }),
            ("admission: ['*', '-queue']", Parts { queues: false, ..all }),
            ("controllers: ['*', '-trainer']", Parts { training: false, ..all }),
            ("admission: ['*', '-trainer']", Parts { judges_training: false, ..all }),
            (GATE, reports(10443)),
            (&format!("{GATE}\n{port}"), reports(7)),
            (port, all),
            (&format!("{GATE}\ncontrollers: ['*', '-trainer']"), Parts { training: false, ..all }),
        ] {
            assert_eq!(parts(ours), want, "{ours}");
        }
        assert_eq!(Parts::default(), all);
    }

    #[test]
    fn names_are_known_and_the_dump_stays_here() {
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
            ("a dump for all", "debug: {listen: '0.0.0.0:6060'}", "", "the debug dump is not shown"),
        ] {
            let error = wanted(&none, ours, jobset).err().expect(says).to_string();
            assert!(error.contains(words), "{says}: {error}");
        }
    }
}
