//! The view of a Pod that a kubelet runs: containers and their order, restarts, probes, hooks and signals.

use std::time::Duration;

use muster_tree::{Text, Tree};

use crate::paths::{check as check_path, container as path, pod as pod_path, probe, restart_rule};
use crate::pod::PodPhase;

/// Stop signal unless the container sets one.
const SIGTERM: i32 = 15;
/// Linux signal names without `SIG`, indexed by number.
const SIGNALS: &[&str] = &[
    "", "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
    "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
    "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

/// What a kubelet has to run for a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodRunSpec {
    /// Init containers and sidecars in spec order, then the main containers.
    pub containers: Vec<ContainerRunSpec>,
    /// `activeDeadlineSeconds`; `None` is no deadline.
    pub deadline: Option<Duration>,
    /// `terminationGracePeriodSeconds`; 30 s when absent.
    pub grace: Duration,
    /// `readinessGates`: condition types that other controllers set.
    pub gates: Vec<Text>,
}

/// The role of a container in the life cycle of its pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerRole {
    /// Runs to completion before the next container starts.
    Init,
    /// An init container with `restartPolicy: Always`: starts in order and keeps running beside the main containers.
    Sidecar,
    /// A container of `spec.containers`.
    Main,
}

/// Whether a terminated container is restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartPolicy {
    /// After any exit code.
    Always,
    /// After an exit code other than 0.
    OnFailure,
    /// Never, unless a restart rule matches.
    Never,
}

/// What a kubelet has to run for one container.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields mirror v1.Container")]
pub struct ContainerRunSpec {
    pub name: Text,
    pub image: Text,
    pub role: ContainerRole,
    /// Effective policy: the container's own, else that of the pod; an init container never restarts after exit code 0.
    pub restart: RestartPolicy,
    /// `restartPolicyRules`; they take precedence over the policy.
    pub rules: Vec<RestartRule>,
    /// Startup probe; liveness and readiness probes wait for its success.
    pub startup: Option<Probe>,
    /// Liveness probe; its failure restarts the container.
    pub liveness: Option<Probe>,
    /// Readiness probe; its result is the readiness of the container.
    pub readiness: Option<Probe>,
    /// `lifecycle.postStart`; its failure restarts the container.
    pub post_start: Option<ProbeHandler>,
    /// `lifecycle.preStop`; counts against the grace period.
    pub pre_stop: Option<ProbeHandler>,
    /// Signal number of the graceful stop; SIGTERM when absent.
    pub stop_signal: i32,
}

/// A `restartPolicyRules` entry with action `Restart`: the exit codes that it matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestartRule {
    codes: Vec<i64>,
    within: bool,
}

/// A probe with upstream's defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// What the probe does.
    pub check: ProbeHandler,
    /// `initialDelaySeconds` after the start, default 0.
    pub delay: Duration,
    /// `periodSeconds`, default 10 s, at least 1 s.
    pub period: Duration,
    /// `timeoutSeconds`, default 1 s.
    pub timeout: Duration,
    /// `successThreshold`: consecutive successes, default 1.
    pub successes: u32,
    /// `failureThreshold`: consecutive failures, default 3.
    pub failures: u32,
    /// `terminationGracePeriodSeconds` for a container that fails this probe; `None` uses the pod's.
    pub grace: Option<Duration>,
}

/// The handler of a probe or lifecycle hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeHandler {
    /// Runs a command in the container.
    Exec(Vec<Text>),
    /// An HTTP GET, against the pod's address unless a host is given.
    Http {
        /// Host, if it is another.
        host: Text,
        /// Port; 0 when a named port is not there.
        port: u16,
        /// Path of the request.
        path: Text,
        /// Scheme `HTTPS`, which the local kubelet does not support.
        tls: bool,
        /// Headers, in the order of the spec.
        headers: Vec<(Text, Text)>,
    },
    /// Opens a TCP connection.
    Tcp {
        /// Host, if it is another.
        host: Text,
        /// Port; 0 when a named port is not there.
        port: u16,
    },
    /// Sleeps for this long (hooks only).
    Sleep(Duration),
    /// A handler that the local kubelet does not implement, by its field name, for example `grpc`.
    Unsupported(Text),
}

impl PodRunSpec {
    /// Reads the spec of a Pod, with upstream's defaults.
    #[must_use]
    pub fn of(pod: &Tree) -> PodRunSpec {
        let policy = RestartPolicy::of(pod.str_at(pod_path::RESTART_POLICY)).unwrap_or(RestartPolicy::Always);
        let inits = pod.items_at(pod_path::INIT_CONTAINERS).iter();
        let inits = inits.map(|tree| ContainerRunSpec::of(tree, true, policy));
        let mains = pod.items_at(pod_path::CONTAINERS).iter();
        let mains = mains.map(|tree| ContainerRunSpec::of(tree, false, policy));
        let gates = pod.items_at(pod_path::READINESS_GATES).iter();
        PodRunSpec {
            containers: inits.chain(mains).collect(),
            deadline: seconds(pod, pod_path::DEADLINE),
            grace: seconds(pod, pod_path::GRACE).unwrap_or(Duration::from_secs(30)),
            gates: gates.map(|gate| gate.text_at(&["conditionType"])).collect(),
        }
    }

    /// Applies the fields that may change while the pod runs.
    pub fn update(&mut self, pod: &Tree) {
        self.deadline = seconds(pod, pod_path::DEADLINE);
    }

    /// Returns whether the pod has init containers or sidecars.
    #[must_use]
    pub fn has_init(&self) -> bool {
        self.containers.iter().any(|one| one.role != ContainerRole::Main)
    }

    /// Phase of a pod after its main containers terminated with these exit codes.
    #[must_use]
    pub fn terminal_phase(codes: impl IntoIterator<Item = i64>) -> PodPhase {
        if codes.into_iter().all(|code| code == 0) { PodPhase::Succeeded } else { PodPhase::Failed }
    }
}

impl RestartPolicy {
    fn of(word: &str) -> Option<RestartPolicy> {
        match word {
            "Always" => Some(RestartPolicy::Always),
            "OnFailure" => Some(RestartPolicy::OnFailure),
            "Never" => Some(RestartPolicy::Never),
            _ => None,
        }
    }
}

impl ContainerRunSpec {
    fn of(tree: &Tree, init: bool, policy: RestartPolicy) -> ContainerRunSpec {
        let own = RestartPolicy::of(tree.str_at(path::RESTART_POLICY));
        let role = match (init, own) {
            (true, Some(RestartPolicy::Always)) => ContainerRole::Sidecar,
            (true, _) => ContainerRole::Init,
            (false, _) => ContainerRole::Main,
        };
        let restart = match (role, own.unwrap_or(policy)) {
            (ContainerRole::Sidecar, _) => RestartPolicy::Always,
            // An init container that succeeded is done, whatever the pod's policy; upstream maps Always to OnFailure here.
            (ContainerRole::Init, RestartPolicy::Always) => RestartPolicy::OnFailure,
            (_, policy) => policy,
        };
        ContainerRunSpec {
            name: tree.text_at(path::NAME),
            image: tree.text_at(path::IMAGE),
            role,
            restart,
            rules: tree.items_at(path::RESTART_RULES).iter().filter_map(RestartRule::of).collect(),
            startup: tree.at(path::STARTUP).map(|it| Probe::of(it, tree)),
            liveness: tree.at(path::LIVENESS).map(|it| Probe::of(it, tree)),
            readiness: tree.at(path::READINESS).map(|it| Probe::of(it, tree)),
            post_start: tree.at(path::POST_START).map(|it| ProbeHandler::of(it, tree)),
            pre_stop: tree.at(path::PRE_STOP).map(|it| ProbeHandler::of(it, tree)),
            stop_signal: signal_number(tree.str_at(path::STOP_SIGNAL)).unwrap_or(SIGTERM),
        }
    }

    /// Returns whether the container is restarted after this exit code: restart rules first, then the policy.
    #[must_use]
    pub fn restarts_after(&self, code: i64) -> bool {
        self.rules.iter().any(|rule| rule.codes.contains(&code) == rule.within)
            || match self.restart {
                RestartPolicy::Always => true,
                RestartPolicy::OnFailure => code != 0,
                RestartPolicy::Never => false,
            }
    }
}

impl RestartRule {
    fn of(tree: &Tree) -> Option<RestartRule> {
        let codes = tree.items_at(restart_rule::VALUES).iter().filter_map(Tree::as_int).collect();
        let within = tree.str_at(restart_rule::OPERATOR) == "In";
        (tree.str_at(restart_rule::ACTION) == "Restart").then_some(RestartRule { codes, within })
    }
}

impl Probe {
    fn of(tree: &Tree, container: &Tree) -> Probe {
        let count = |at| tree.int_at(at).and_then(|n| u32::try_from(n).ok()).filter(|n| *n > 0);
        let time = |at, default| seconds(tree, at).unwrap_or(Duration::from_secs(default));
        Probe {
            check: ProbeHandler::of(tree, container),
            delay: time(probe::DELAY, 0),
            period: time(probe::PERIOD, 10).max(Duration::from_secs(1)),
            timeout: time(probe::TIMEOUT, 1).max(Duration::from_secs(1)),
            successes: count(probe::SUCCESSES).unwrap_or(1),
            failures: count(probe::FAILURES).unwrap_or(3),
            grace: seconds(tree, probe::GRACE),
        }
    }
}

impl ProbeHandler {
    fn of(tree: &Tree, container: &Tree) -> ProbeHandler {
        if let Some(command) = tree.at(check_path::EXEC) {
            return ProbeHandler::Exec(
                command.items().iter().filter_map(|it| it.as_text().cloned()).collect(),
            );
        }
        if tree.at(check_path::HTTP).is_some() {
            let headers = tree.items_at(check_path::HTTP_HEADERS).iter();
            return ProbeHandler::Http {
                host: tree.text_at(check_path::HTTP_HOST),
                port: port(tree.at(check_path::HTTP_PORT), container),
                path: tree.text_at(check_path::HTTP_PATH),
                tls: tree.str_at(check_path::HTTP_SCHEME) == "HTTPS",
                headers: headers.map(|it| (it.text_at(&["name"]), it.text_at(&["value"]))).collect(),
            };
        }
        if tree.at(check_path::TCP).is_some() {
            let port = port(tree.at(check_path::TCP_PORT), container);
            return ProbeHandler::Tcp { host: tree.text_at(check_path::TCP_HOST), port };
        }
        if let Some(pause) = seconds(tree, check_path::SLEEP) {
            return ProbeHandler::Sleep(pause);
        }
        let word = tree.entries().iter().find(|(_, value)| value.is_map()).map(|(word, _)| word.clone());
        ProbeHandler::Unsupported(word.unwrap_or_default())
    }
}

/// A port by number or by the name of a container port; 0 if the name is unknown.
fn port(asked: Option<&Tree>, container: &Tree) -> u16 {
    let number = match asked {
        Some(Tree::Text(name)) => {
            let mut ports = container.items_at(path::PORTS).iter();
            let named = ports.find(|it| it.str_at(&["name"]) == name.as_str());
            named.and_then(|it| it.int_at(&["containerPort"])).or_else(|| name.parse().ok())
        }
        Some(other) => other.as_int(),
        None => None,
    };
    number.and_then(|n| u16::try_from(n).ok()).unwrap_or(0)
}

fn seconds(tree: &Tree, at: &[&str]) -> Option<Duration> {
    tree.int_at(at).and_then(|n| u64::try_from(n).ok()).map(Duration::from_secs)
}

/// The number of a signal such as `SIGUSR1` or `SIGRTMIN+3`; `None` if the name is unknown.
#[must_use]
pub fn signal_number(word: &str) -> Option<i32> {
    const REAL_TIME_FIRST: i32 = 34;
    const REAL_TIME_LAST: i32 = 64;
    let name = word.strip_prefix("SIG")?;
    if let Some(after) = name.strip_prefix("RTMIN") {
        return Some(REAL_TIME_FIRST + after.strip_prefix('+').map_or(Some(0), |n| n.parse().ok())?);
    }
    if let Some(before) = name.strip_prefix("RTMAX") {
        return Some(REAL_TIME_LAST - before.strip_prefix('-').map_or(Some(0), |n| n.parse().ok())?);
    }
    let number = SIGNALS.iter().position(|known| !known.is_empty() && *known == name)?;
    i32::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn roles_and_restarts() {
        let pod = |policy: &str| {
            tree!({"spec": {"restartPolicy": policy,
                "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}],
                "containers": [{"name": "m"},
                    {"name": "r", "restartPolicy": "Never", "restartPolicyRules": [
                        {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]}]}})
        };
        for (policy, codes) in [
            ("Always", [(0, "-sm-"), (1, "ism-"), (42, "ismr")]),
            ("OnFailure", [(0, "-s--"), (1, "ism-"), (42, "ismr")]),
            ("Never", [(0, "-s--"), (1, "-s--"), (42, "-s-r")]),
        ] {
            let work = PodRunSpec::of(&pod(policy));
            let roles: Vec<ContainerRole> = work.containers.iter().map(|it| it.role).collect();
            assert_eq!(
                roles,
                [ContainerRole::Init, ContainerRole::Sidecar, ContainerRole::Main, ContainerRole::Main]
            );
            for (code, want) in codes {
                let found: String = work
                    .containers
                    .iter()
                    .map(|it| if it.restarts_after(code) { it.name.as_str() } else { "-" })
                    .collect();
                assert_eq!(found, want, "{policy}, code {code}");
            }
        }
    }

    #[test]
    fn probes_with_their_defaults_and_named_ports() {
        let pod = tree!({"spec": {"containers": [{"name": "m", "ports": [{"name": "web", "containerPort": 8080}],
            "livenessProbe": {"httpGet": {"path": "/live", "port": "web"}, "periodSeconds": 2},
            "readinessProbe": {"tcpSocket": {"port": 9}, "terminationGracePeriodSeconds": 4},
            "startupProbe": {"grpc": {"port": 1}},
            "lifecycle": {"preStop": {"sleep": {"seconds": 3}}, "postStart": {"exec": {"command": ["a", "b"]}},
                "stopSignal": "SIGUSR1"}}]}});
        let work = PodRunSpec::of(&pod);
        let one = &work.containers[0];
        let live = one.liveness.as_ref().unwrap();
        assert!(
            matches!(&live.check, ProbeHandler::Http { port: 8080, tls: false, path, .. } if path == "/live")
        );
        assert_eq!((live.period.as_secs(), live.failures, live.timeout.as_secs()), (2, 3, 1));
        let ready = one.readiness.as_ref().unwrap();
        assert_eq!(ready.check, ProbeHandler::Tcp { host: Text::new(), port: 9 });
        assert_eq!(ready.grace, Some(Duration::from_secs(4)));
        assert_eq!(one.startup.as_ref().unwrap().check, ProbeHandler::Unsupported("grpc".into()));
        assert_eq!(one.pre_stop, Some(ProbeHandler::Sleep(Duration::from_secs(3))));
        assert_eq!(one.post_start, Some(ProbeHandler::Exec(vec!["a".into(), "b".into()])));
        assert_eq!(one.stop_signal, 10);
        assert_eq!(work.grace.as_secs(), 30);
    }

    #[test]
    fn signals_by_name() {
        for (word, want) in [
            ("SIGTERM", Some(15)),
            ("SIGKILL", Some(9)),
            ("SIGSYS", Some(31)),
            ("SIGRTMIN", Some(34)),
            ("SIGRTMIN+3", Some(37)),
            ("SIGRTMAX-1", Some(63)),
            ("TERM", None),
            ("", None),
            ("SIG", None),
        ] {
            assert_eq!(signal_number(word), want, "{word}");
        }
    }
}
