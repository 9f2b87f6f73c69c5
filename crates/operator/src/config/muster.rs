//! Our own document: kind `Configuration` of `muster.dev/v1alpha1`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use muster_control::schedule::Packing;
use muster_trainer::controller::DeadlineClock;
use muster_tree::{Tree, from_tree};
use serde::{Deserialize, Deserializer, de};

use super::shape::{ConfigProblem, Field, Shape, check, span, used};
use super::upstream::{API_VERSION, KIND};
use super::{Command, kueue, tls};
use crate::flags::{Durability, Isolation, LogFormat, LogLevel, Runtime};

pub const VERSION: &str = muster_api::consts::CONFIG_VERSION;

const LISTEN: Shape = Shape::Fields(&[used("listen", Shape::Address)]);

const CERTIFICATES: Field = used(
    "certificates",
    Shape::Fields(&[
        used("serving", Shape::Span),
        used("authority", Shape::Span),
        used("pause", Shape::Span),
    ]),
);

pub const FIELDS: [Field; 27] = [
    API_VERSION,
    KIND,
    used("dataDir", Shape::Text),
    used("ephemeral", Shape::Bool),
    used("listen", Shape::Address),
    used("kubeconfig", Shape::Text),
    used("simNodes", Shape::Whole(0, u32::MAX as i64)),
    used("nodes", Shape::Text),
    used("controllers", Shape::List(&Shape::Text)),
    used("admission", Shape::List(&Shape::Text)),
    used("featureGates", Shape::Map(&Shape::Bool)),
    used("packing", Shape::Word(&["devices", "everything", "nothing"])),
    used("resourceClaims", Shape::Fields(&[used("rejectOverrides", Shape::Bool)])),
    used("isolation", Shape::Word(&["auto", "namespaces", "none"])),
    used("runtime", Shape::Word(&["process", "docker", "podman"])),
    used("podPidsLimit", Shape::Whole(1, u32::MAX as i64)),
    used("durability", Shape::Word(&["strict", "relaxed"])),
    used("logLevel", Shape::Word(&["error", "warn", "info", "debug", "trace"])),
    used("logFormat", Shape::Word(&["text", "json"])),
    used("namespace", Shape::Text),
    used(
        "webhook",
        Shape::Fields(&[used("listen", Shape::Address), used("service", Shape::Text), CERTIFICATES]),
    ),
    used("health", LISTEN),
    used("metrics", LISTEN),
    used("debug", LISTEN),
    used(
        "tls",
        Shape::Fields(&[used("minVersion", Shape::Text), used("cipherSuites", Shape::List(&Shape::Text))]),
    ),
    used("queueing", Shape::Fields(&kueue::QUEUEING)),
    used(
        "trainjob",
        Shape::Fields(&[
            used("deadlineClock", Shape::Word(&["auto", "creation", "active"])),
            used("registry", Shape::Text),
            used("dataCache", Shape::Bool),
        ]),
    ),
];

/// Keys that only one of the commands supports.
const ONLY_UP: [&str; 9] = [
    "dataDir",
    "ephemeral",
    "listen",
    "simNodes",
    "nodes",
    "isolation",
    "runtime",
    "podPidsLimit",
    "durability",
];
const ONLY_OPERATOR: [&str; 6] = ["namespace", "webhook", "health", "metrics", "debug", "tls"];

/// Our own document; most keys have the name and meaning of a flag.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    pub data_dir: Option<PathBuf>,
    pub ephemeral: bool,
    pub listen: Option<SocketAddr>,
    pub kubeconfig: Option<PathBuf>,
    pub sim_nodes: Option<u32>,
    pub nodes: Option<PathBuf>,
    pub controllers: Option<Vec<String>>,
    pub admission: Option<Vec<String>>,
    pub feature_gates: BTreeMap<String, bool>,
    /// The resources that the scheduler packs nodes by: `devices` (default), `everything` or `nothing`.
    pub packing: Option<PackingMode>,
    pub resource_claims: ResourceClaims,
    pub isolation: Option<Isolation>,
    pub runtime: Option<Runtime>,
    /// Maximum number of processes and threads of a container on the local node, kubelet's `podPidsLimit`.
    pub pod_pids_limit: Option<u32>,
    pub durability: Option<Durability>,
    pub log_level: Option<LogLevel>,
    pub log_format: Option<LogFormat>,
    pub namespace: Option<String>,
    pub webhook: WebhookConfig,
    pub health: ListenConfig,
    pub metrics: ListenConfig,
    pub debug: ListenConfig,
    pub trainjob: TrainJobConfig,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct TrainJobConfig {
    /// What `activeDeadlineSeconds` counts from.
    pub deadline_clock: DeadlineClockConfig,
    /// Registry mirror for the images of the bundled runtimes.
    pub registry: String,
    /// Whether the runtime with a data cache is bundled, too.
    pub data_cache: bool,
}

/// What deadlines count from: `auto` (default), `creation` or `active`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeadlineClockConfig(pub DeadlineClock);

impl<'de> Deserialize<'de> for DeadlineClockConfig {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<DeadlineClockConfig, D::Error> {
        let text = String::deserialize(input)?;
        let clock = DeadlineClock::of(&text).map(DeadlineClockConfig);
        clock.ok_or_else(|| de::Error::custom(format!("`{text}` is not a deadline clock")))
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ResourceClaims {
    /// Whether admission rejects a pod template with a claim of the same name as one of the JobSet's claim templates.
    pub reject_overrides: bool,
}

/// An endpoint of the admin server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ListenConfig {
    pub listen: Option<SocketAddr>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WebhookConfig {
    pub listen: Option<SocketAddr>,
    pub service: Option<String>,
    pub certificates: CertificateConfig,
}

/// Lifetimes of the certificates of webhooks behind a Service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CertificateConfig {
    pub serving: Option<ConfigDuration>,
    pub authority: Option<ConfigDuration>,
    pub pause: Option<ConfigDuration>,
}

/// A duration, written `90s`, `1h30m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConfigDuration(pub Duration);

impl<'de> Deserialize<'de> for ConfigDuration {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<ConfigDuration, D::Error> {
        let text = String::deserialize(input)?;
        span(&text)
            .map(ConfigDuration)
            .ok_or_else(|| de::Error::custom(format!("`{text}` is not a duration")))
    }
}

/// The resources that the scheduler packs nodes by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PackingMode {
    /// Extended resources, such as GPUs.
    #[default]
    Devices,
    Everything,
    /// None: pods are spread.
    Nothing,
}

impl From<PackingMode> for Packing {
    fn from(packed: PackingMode) -> Packing {
        match packed {
            PackingMode::Devices => Packing::Devices,
            PackingMode::Everything => Packing::Everything,
            PackingMode::Nothing => Packing::Nothing,
        }
    }
}

/// Parses the document for this command.
///
/// # Errors
/// All its problems.
pub fn read(document: &Tree, command: Command) -> Result<Config, Vec<ConfigProblem>> {
    let mut wrong = Vec::new();
    check(&Shape::Fields(&FIELDS), document, "", &mut wrong);
    tls::check(document, &mut wrong);
    let (foreign, other) = match command {
        Command::Up => (&ONLY_OPERATOR[..], "operator"),
        Command::Operator => (&ONLY_UP[..], "up"),
    };
    let foreign = foreign.iter().filter(|key| document.get(key).is_some());
    wrong.extend(foreign.map(|key| {
        let words = format!(
            "this is a key of `muster {other}` and has no effect on `muster {command}`: leave it out"
        );
        ConfigProblem::at(*key, words)
    }));
    if document.bool_at(&["ephemeral"]) == Some(true) && document.get("dataDir").is_some() {
        wrong.push(ConfigProblem::at("dataDir", "dataDir and ephemeral exclude each other: leave one out"));
    }
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let read_elsewhere = ["apiVersion", "kind", "tls", "queueing"];
    let rest = read_elsewhere.iter().fold(document.clone(), |rest, key| rest.without_key(key));
    from_tree(&without_nulls(&rest)).map_err(|error| vec![ConfigProblem::at("", error.to_string())])
}

/// The document without `null` values, which count as unset.
fn without_nulls(tree: &Tree) -> Tree {
    tree.map_entries(|_, value| match value {
        Tree::Null => None,
        Tree::Map(_) => Some(without_nulls(value)),
        _ => Some(value.clone()),
    })
}
