//! What a kubelet reads of a Pod: which containers to run, in which order, how they are watched and stopped.

use std::time::Duration;

use muster_tree::{Text, Tree};

use crate::paths::{check as check_path, container as path, pod as pod_path, probe, restart_rule};
use crate::pod::Phase;

/// The signal that asks a process to stop, unless its container names another.
const SIGTERM: i32 = 15;
/// The names of signals by number, as Linux has them.
const SIGNALS: &[&str] = &[
    "", "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
    "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
    "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

/// All of a pod's work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    /// Init containers and sidecars in their order, then the others.
    pub containers: Vec<ContainerWork>,
    /// How long the pod may be active.
    pub deadline: Option<Duration>,
    /// How long it may take to stop.
    pub grace: Duration,
    /// Conditions that others must set before it is ready.
    pub gates: Vec<Text>,
}

/// What a container is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Runs to its end before the next one begins.
    Init,
    /// Begins in the order of init containers and stays beside the others.
    Sidecar,
    /// The work itself.
    Main,
}

/// When a container that ended is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// Whatever its code.
    Always,
    /// When its code is not 0.
    OnFailure,
    /// Never.
    Never,
}

/// One container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerWork {
    /// Its name.
    pub name: Text,
    /// The name of its image.
    pub image: Text,
    /// What it is for.
    pub role: Role,
    /// When it is started again.
    pub restart: Restart,
    /// Codes that decide before that.
    pub rules: Vec<RestartRule>,
    /// Whether it has come up.
    pub startup: Option<Probe>,
    /// Whether it is alive.
    pub liveness: Option<Probe>,
    /// Whether it can serve.
    pub readiness: Option<Probe>,
    /// What is done once it runs.
    pub post_start: Option<Check>,
    /// What is done before it is stopped.
    pub pre_stop: Option<Check>,
    /// The signal that asks it to stop.
    pub stop_signal: i32,
}

/// Codes that lead to a restart, whatever the policy says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestartRule {
    codes: Vec<i64>,
    within: bool,
}

/// How a container is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// What is done.
    pub check: Check,
    /// The first time so long after the start.
    pub delay: Duration,
    /// How often.
    pub period: Duration,
    /// How long it may take.
    pub timeout: Duration,
    /// Successes in a row that count.
    pub successes: u32,
    /// Failures in a row that count.
    pub failures: u32,
    /// How long a container that failed may take to stop.
    pub grace: Option<Duration>,
}

/// One look at a container, or one thing to do beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Check {
    /// A command in the container.
    Exec(Vec<Text>),
    /// A request; the host is the pod's address where none is named.
    Http {
        /// Host, if it is another.
        host: Text,
        /// Port; 0 when a named port is not there.
        port: u16,
        /// Path.
        path: Text,
        /// Whether over TLS.
        tls: bool,
        /// Headers.
        headers: Vec<(Text, Text)>,
    },
    /// A connection.
    Tcp {
        /// Host, if it is another.
        host: Text,
        /// Port; 0 when a named port is not there.
        port: u16,
    },
    /// A pause.
    Sleep(Duration),
    /// Something this machine cannot do, by its word.
    Other(Text),
}

impl Work {
    /// Reads a Pod.
    #[must_use]
    pub fn of(pod: &Tree) -> Work {
        let policy = Restart::of(pod.str_at(pod_path::RESTART_POLICY)).unwrap_or(Restart::Always);
        let inits = pod.items_at(pod_path::INIT_CONTAINERS).iter();
        let inits = inits.map(|tree| ContainerWork::of(tree, true, policy));
        let mains = pod.items_at(pod_path::CONTAINERS).iter();
        let mains = mains.map(|tree| ContainerWork::of(tree, false, policy));
        let gates = pod.items_at(pod_path::READINESS_GATES).iter();
        Work {
            containers: inits.chain(mains).collect(),
            deadline: seconds(pod, pod_path::DEADLINE),
            grace: seconds(pod, pod_path::GRACE).unwrap_or(Duration::from_secs(30)),
            gates: gates.map(|gate| gate.text_at(&["conditionType"])).collect(),
        }
    }

    /// Takes over what an update may change while the pod runs.
    pub fn update(&mut self, pod: &Tree) {
        self.deadline = seconds(pod, pod_path::DEADLINE);
    }

    /// Whether the pod has init containers or sidecars.
    #[must_use]
    pub fn has_init(&self) -> bool {
        self.containers.iter().any(|one| one.role != Role::Main)
    }

    /// The phase of a pod whose main containers ended with these codes.
    #[must_use]
    pub fn end_phase(codes: impl IntoIterator<Item = i64>) -> Phase {
        if codes.into_iter().all(|code| code == 0) { Phase::Succeeded } else { Phase::Failed }
    }
}

impl Restart {
    fn of(word: &str) -> Option<Restart> {
        match word {
            "Always" => Some(Restart::Always),
            "OnFailure" => Some(Restart::OnFailure),
            "Never" => Some(Restart::Never),
            _ => None,
        }
    }
}

impl ContainerWork {
    fn of(tree: &Tree, init: bool, policy: Restart) -> ContainerWork {
        let own = Restart::of(tree.str_at(path::RESTART_POLICY));
        let role = match (init, own) {
            (true, Some(Restart::Always)) => Role::Sidecar,
            (true, _) => Role::Init,
            (false, _) => Role::Main,
        };
        let restart = match (role, own.unwrap_or(policy)) {
            (Role::Sidecar, _) => Restart::Always,
            // Once through is enough.
            (Role::Init, Restart::Always) => Restart::OnFailure,
            (_, policy) => policy,
        };
        ContainerWork {
            name: tree.text_at(path::NAME),
            image: tree.text_at(path::IMAGE),
            role,
            restart,
            rules: tree.items_at(path::RESTART_RULES).iter().filter_map(RestartRule::of).collect(),
            startup: tree.at(path::STARTUP).map(|it| Probe::of(it, tree)),
            liveness: tree.at(path::LIVENESS).map(|it| Probe::of(it, tree)),
            readiness: tree.at(path::READINESS).map(|it| Probe::of(it, tree)),
            post_start: tree.at(path::POST_START).map(|it| Check::of(it, tree)),
            pre_stop: tree.at(path::PRE_STOP).map(|it| Check::of(it, tree)),
            stop_signal: signal(tree.str_at(path::STOP_SIGNAL)).unwrap_or(SIGTERM),
        }
    }

    /// Whether it is started again after it ended with this code.
    #[must_use]
    pub fn restarts_after(&self, code: i64) -> bool {
        self.rules.iter().any(|rule| rule.codes.contains(&code) == rule.within)
            || match self.restart {
                Restart::Always => true,
                Restart::OnFailure => code != 0,
                Restart::Never => false,
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
            check: Check::of(tree, container),
            delay: time(probe::DELAY, 0),
            period: time(probe::PERIOD, 10).max(Duration::from_secs(1)),
            timeout: time(probe::TIMEOUT, 1).max(Duration::from_secs(1)),
            successes: count(probe::SUCCESSES).unwrap_or(1),
            failures: count(probe::FAILURES).unwrap_or(3),
            grace: seconds(tree, probe::GRACE),
        }
    }
}

impl Check {
    fn of(tree: &Tree, container: &Tree) -> Check {
        if let Some(command) = tree.at(check_path::EXEC) {
            return Check::Exec(command.items().iter().filter_map(|it| it.as_text().cloned()).collect());
        }
        if tree.at(check_path::HTTP).is_some() {
            let headers = tree.items_at(check_path::HTTP_HEADERS).iter();
            return Check::Http {
                host: tree.text_at(check_path::HTTP_HOST),
                port: port(tree.at(check_path::HTTP_PORT), container),
                path: tree.text_at(check_path::HTTP_PATH),
                tls: tree.str_at(check_path::HTTP_SCHEME) == "HTTPS",
                headers: headers.map(|it| (it.text_at(&["name"]), it.text_at(&["value"]))).collect(),
            };
        }
        if tree.at(check_path::TCP).is_some() {
            let port = port(tree.at(check_path::TCP_PORT), container);
            return Check::Tcp { host: tree.text_at(check_path::TCP_HOST), port };
        }
        if let Some(pause) = seconds(tree, check_path::SLEEP) {
            return Check::Sleep(pause);
        }
        let word = tree.entries().iter().find(|(_, value)| value.is_map()).map(|(word, _)| word.clone());
        Check::Other(word.unwrap_or_default())
    }
}

/// A port by number, or by the name it has in the container.
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

/// The number of a signal such as `SIGUSR1` or `SIGRTMIN+3`.
#[must_use]
pub fn signal(word: &str) -> Option<i32> {
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
            let work = Work::of(&pod(policy));
            let roles: Vec<Role> = work.containers.iter().map(|it| it.role).collect();
            assert_eq!(roles, [Role::Init, Role::Sidecar, Role::Main, Role::Main]);
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
        let work = Work::of(&pod);
        let one = &work.containers[0];
        let live = one.liveness.as_ref().unwrap();
        assert!(matches!(&live.check, Check::Http { port: 8080, tls: false, path, .. } if path == "/live"));
        assert_eq!((live.period.as_secs(), live.failures, live.timeout.as_secs()), (2, 3, 1));
        let ready = one.readiness.as_ref().unwrap();
        assert_eq!(ready.check, Check::Tcp { host: Text::new(), port: 9 });
        assert_eq!(ready.grace, Some(Duration::from_secs(4)));
        assert_eq!(one.startup.as_ref().unwrap().check, Check::Other("grpc".into()));
        assert_eq!(one.pre_stop, Some(Check::Sleep(Duration::from_secs(3))));
        assert_eq!(one.post_start, Some(Check::Exec(vec!["a".into(), "b".into()])));
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
            assert_eq!(signal(word), want, "{word}");
        }
    }
}
