//! One pod of this machine: its life, and what its steps do to the machine.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_api::event::{About, Event, Severity};
use muster_api::paths::pod as pod_path;
use muster_api::pod::Phase;
use muster_api::pod_status::Addresses;
use muster_api::pod_work::{Check, Work};
use muster_api::port::{Object, Uid};
use muster_api::time::Time;
use muster_api::words::{managers, reasons};
use muster_api::{condition, kinds, meta, words};
use muster_control::{Key, Step};
use muster_process::{Id, Launch, Resident, State, Why};
use muster_tree::{Text, Tree};

use super::Setup;
use super::being::{Trouble, pulls};
use super::dress::{self, Awaited, House, Problem, Volume};
use super::life::{Asked, Deed, EndWhy, Ending, Life, Looks, Next, check_of};
use super::look::Place;
use super::machine::Machine;
use super::report::{crash_loop, ephemeral, report};
use super::ring::Found;

/// What cannot be begun is tried again after this time, or when something it waits for changes.
const TRY_AGAIN: Duration = Duration::from_secs(10);
/// For so long nobody is told that a token is missing: it was asked for.
const TOKEN_WAIT: Duration = Duration::from_secs(5);
/// For so long a container waits for the pod at which it is to meet others: then it may see for itself.
const NEIGHBOUR_WAIT: Duration = Duration::from_secs(30);
/// Rounds of deciding and doing in one step; each round only does what the one before made possible.
const ROUNDS_MAX: usize = 8;

/// A pod of this machine.
pub struct Inmate {
    /// Its key.
    pub key: Key,
    uid: Uid,
    work: Work,
    life: Life,
    address: Text,
    /// What was put on disk; `None` before the first time.
    volumes: Option<BTreeMap<Text, Volume>>,
    /// Whether objects it names have changed since.
    stale: bool,
    hosts: Option<String>,
    /// Problems that were told since the last start, so that each is told once.
    told: BTreeSet<String>,
    /// Since when it waits for something that comes by itself.
    quiet_since: Option<Time>,
    /// Since when it waits for the address of another pod.
    meets_since: Option<Time>,
    newest: Time,
}

/// What came of a step.
#[derive(Default)]
pub struct Stepped {
    /// A status to write.
    pub status: Option<Tree>,
    /// Whether its deletion can be finished.
    pub bury: bool,
    /// Events.
    pub notes: Vec<Step>,
    /// When to look again.
    pub again_at: Option<Time>,
}

/// Whether a run is under way.
#[must_use]
pub fn is_up(state: &State) -> bool {
    !matches!(state, State::Ended(_))
}

impl Inmate {
    /// A pod as the folders and its status tell of it; a new one when they tell nothing.
    #[must_use]
    pub fn revive(key: &Key, pod: &Tree, address: Text, machine: &dyn Machine) -> Inmate {
        let work = Work::of(pod);
        let mut life = Life::new(&work);
        let uid = meta::uid(pod);
        let runs: Vec<Id> = machine.containers().all().into_iter().filter(|id| id.pod == *uid).collect();
        for (one, being) in work.containers.iter().zip(&mut life.beings) {
            let mut mine: Vec<&Id> = runs.iter().filter(|id| *id.container == *one.name).collect();
            mine.sort_by_key(|id| id.attempt);
            for id in mine {
                being.notice();
                being.begun(id.attempt);
                if being.saw(one, machine.containers().state(id)) {
                    let _ = machine.containers().forget(id);
                }
            }
            super::report::recall(pod, one, being);
        }
        let initialized =
            condition::holds(pod.items_at(pod_path::CONDITIONS), words::conditions::INITIALIZED);
        life.initialized = initialized && !pod.items_at(pod_path::CONTAINER_STATUSES).is_empty();
        Inmate {
            key: key.clone(),
            uid,
            work,
            life,
            address,
            volumes: None,
            stale: true,
            hosts: None,
            told: BTreeSet::new(),
            quiet_since: None,
            meets_since: None,
            newest: Time::default(),
        }
    }

    /// One step: looks at the machine, decides, does, and says what to tell.
    pub fn step(&mut self, pod: &Tree, place: &mut Place<'_>) -> Stepped {
        let mut out = Stepped::default();
        self.newest = place.now;
        self.work.update(pod);
        for at in self.look_at_runs(place.machine) {
            self.note_news(pod, at, &mut out);
        }
        let ended = Phase::of(pod.str_at(pod_path::PHASE)).ended();
        let (fresh, mut refresh) = place.ring.take_fresh(&self.uid);
        let overdue = refresh.take_if(|at| *at <= place.now).is_some();
        self.stale |= fresh || overdue;
        if !ended {
            self.dress_again(pod, place);
            self.write_hosts(pod, place);
        }
        for found in place.ring.take(&self.uid) {
            self.hear(pod, found, place, &mut out);
        }
        let asked = Asked {
            since: Time::of(pod.at(pod_path::START_TIME)).unwrap_or(place.now),
            gone_by: meta::deleting(pod),
            shutdown_by: None,
            over: ended,
        };
        for _ in 0..ROUNDS_MAX {
            let next = self.life.next(&self.work, &asked, place.now);
            out.again_at = next.wake;
            if next.deeds.is_empty() {
                break;
            }
            self.perform(pod, next, place, &mut out);
        }
        if ended {
            out.bury = meta::deleting(pod).is_some() && meta::grace_secs(pod) != 0 && self.life.over();
            return out;
        }
        out.again_at = out.again_at.into_iter().chain(refresh).min();
        // Who waits for a moment only has nothing to tell yet.
        let silent = self.quiet_since.is_some() && pod.str_at(pod_path::POD_IP).is_empty();
        if !silent {
            out.status = self.status(pod, &place.setup.told.address, place.now);
        }
        out
    }

    /// The status, if it says anything new.
    fn status(&self, pod: &Tree, host: &Text, now: Time) -> Option<Tree> {
        let report = report(pod, &self.work, &self.life, now);
        let addresses = Addresses { host: host.clone(), pod: self.address.clone() };
        let mut patch = report.patch(pod, &addresses, now);
        if let Some(statuses) = ephemeral(pod) {
            patch = patch.with(&["status", "ephemeralContainerStatuses"], statuses);
        }
        (pod.merge(&patch) != *pod).then_some(patch)
    }

    /// Takes in how runs go; those of which there is something new.
    fn look_at_runs(&mut self, machine: &dyn Machine) -> Vec<usize> {
        let mut news = Vec::new();
        for at in 0..self.life.beings.len() {
            if !self.life.beings[at].up() {
                continue;
            }
            let Some(id) = self.id(at) else { continue };
            let state = machine.containers().state(&id);
            let being = &mut self.life.beings[at];
            if state.is_some() && state != being.state {
                if being.saw(&self.work.containers[at], state) {
                    // A folder that cannot be removed is in the way of the next try, which says so.
                    let _ = machine.containers().forget(&id);
                }
                news.push(at);
            }
        }
        news
    }

    /// Tells that a run began, or that it could not.
    fn note_news(&self, pod: &Tree, at: usize, out: &mut Stepped) {
        let name = &self.work.containers[at].name;
        let being = &self.life.beings[at];
        if let Some(pull) = being.pull.as_ref().filter(|_| !being.up()) {
            let mut warn = |reason, text: &str| out.notes.push(note(pod, Severity::Warning, reason, text));
            match pull.reason {
                pulls::NEVER => warn(pulls::NEVER, &pull.message),
                _ => warn(
                    reasons::FAILED,
                    &format!("Failed to pull image {:?}: {}", pull.image.as_str(), pull.message),
                ),
            }
            return warn(reasons::FAILED, &format!("Error: {}", pull.reason));
        }
        match &being.state {
            Some(State::Running { .. }) => {
                let text = format!("Container started: {name}");
                out.notes.push(note(pod, Severity::Normal, reasons::STARTED, &text));
            }
            Some(State::Ended(end)) if end.why == Why::NotStarted => {
                let text = format!("Error: container {name}: {}", end.message);
                out.notes.push(note(pod, Severity::Warning, reasons::FAILED, &text));
            }
            _ => {}
        }
    }

    /// The newest run of a container.
    fn id(&self, at: usize) -> Option<Id> {
        let attempt = self.life.beings[at].attempt?;
        let container = self.work.containers[at].name.to_string();
        Some(Id { pod: self.uid.to_string(), container, attempt })
    }

    fn hear(&mut self, pod: &Tree, found: Found, place: &mut Place<'_>, out: &mut Stepped) {
        if self.life.beings[found.container].attempt != Some(found.attempt) {
            return;
        }
        let next = self.life.heard(&self.work, found.container, found.what, found.result, place.now);
        self.perform(pod, next, place, out);
    }

    fn perform(&mut self, pod: &Tree, next: Next, place: &mut Place<'_>, out: &mut Stepped) {
        for deed in next.deeds {
            match deed {
                Deed::Note(severity, reason, message) => {
                    out.notes.push(note(pod, severity, reason, &message));
                }
                Deed::Start(at, attempt) => self.start(pod, at, attempt, place, out),
                Deed::Signal(at, signal) => {
                    if let Some(id) = self.id(at) {
                        place.machine.containers().signal(&id, signal);
                    }
                }
                Deed::Kill(at) => {
                    if let Some(id) = self.id(at) {
                        place.machine.containers().kill(&id);
                    }
                }
                Deed::Check(at, what) => self.check(at, what, place),
            }
        }
    }

    fn check(&mut self, at: usize, what: Looks, place: &mut Place<'_>) {
        let Some(id) = self.id(at) else { return };
        let Some((check, timeout)) = check_of(&self.work.containers[at], what) else { return };
        let (ring, attempt, uid) = (place.ring.clone(), id.attempt, self.uid.clone());
        let done = move |result| ring.leave(&uid, Found { container: at, attempt, what, result });
        place.machine.check(&id, &self.address, check, timeout, Box::new(done));
    }

    fn start(&mut self, pod: &Tree, at: usize, attempt: u32, place: &mut Place<'_>, out: &mut Stepped) {
        match self.launch(pod, at, attempt, place) {
            Ok(launch) => {
                self.told.clear();
                (self.quiet_since, self.meets_since) = (None, None);
                self.forget_old(at, attempt, place.machine);
                self.life.begun(at, attempt);
                self.note_start(pod, at, &launch, place.setup.images, out);
            }
            Err(problem) if self.is_on_its_way(&problem, place.now) => {
                let trouble = Trouble {
                    reason: problem.waiting.into(),
                    message: Text::new(),
                    again: place.now + TOKEN_WAIT,
                };
                self.life.cannot(at, trouble);
            }
            Err(problem) => {
                self.quiet_since = None;
                if self.told.insert(problem.message.clone()) {
                    out.notes.push(note(pod, Severity::Warning, problem.event, &problem.note()));
                }
                let again = place.now + TRY_AGAIN;
                let (reason, message) = (problem.waiting.into(), problem.message.as_str().into());
                self.life.cannot(at, Trouble { reason, message, again });
            }
        }
    }

    /// It comes in a moment, by itself: nothing to tell people about yet.
    fn is_on_its_way(&mut self, problem: &Problem, now: Time) -> bool {
        match problem.awaits() {
            Some(Awaited::Token) => now < *self.quiet_since.get_or_insert(now) + TOKEN_WAIT,
            // Its own address must be told meanwhile: the other one may wait for that.
            Some(Awaited::Neighbour) => {
                self.quiet_since = None;
                self.meets_since.get_or_insert(now);
                true
            }
            None => false,
        }
    }

    fn launch(
        &mut self,
        pod: &Tree,
        at: usize,
        attempt: u32,
        place: &mut Place<'_>,
    ) -> Result<Launch, Problem> {
        self.lay_volumes(pod, place)?;
        let name = &self.work.containers[at].name;
        let containers =
            pod.items_at(pod_path::INIT_CONTAINERS).iter().chain(pod.items_at(pod_path::CONTAINERS));
        let container = containers.into_iter().find(|it| meta_name(it) == name.as_str()).cloned();
        let container = container.unwrap_or_else(Tree::empty_map);
        self.refuse_odd_checks(at)?;
        let volumes = self.volumes.clone().unwrap_or_default();
        let lookup = place.lookup();
        let patient = self.meets_since.is_none_or(|since| place.now < since + NEIGHBOUR_WAIT);
        let mut launch = {
            let house = House { patient, ..place.house(&lookup, &self.address) };
            dress::launch(pod, &container, attempt, &volumes, &house)?
        };
        launch.limits.processes = place.setup.processes_max.unwrap_or(launch.limits.processes);
        place.machine.containers().start(&launch).map_err(|message| Problem {
            event: reasons::FAILED,
            waiting: reasons::RUN_ERROR,
            message,
        })?;
        Ok(launch)
    }

    /// A probe that nobody here can make would end a healthy container.
    fn refuse_odd_checks(&self, at: usize) -> Result<(), Problem> {
        let one = &self.work.containers[at];
        let all = [Looks::Startup, Looks::Liveness, Looks::Readiness, Looks::PostStart, Looks::PreStop];
        let checks = all.iter().filter_map(|what| check_of(one, *what).map(|(check, _)| check));
        let mut odd = checks.filter_map(|check| match check {
            Check::Other(word) => Some(word.to_string()),
            Check::Http { tls: true, .. } => Some("httpGet over HTTPS".to_owned()),
            _ => None,
        });
        let Some(word) = odd.next() else { return Ok(()) };
        Err(Problem {
            event: reasons::FAILED,
            waiting: reasons::CREATE_CONTAINER_CONFIG,
            message: format!("{word} checks are not made by this node: use httpGet, tcpSocket or exec"),
        })
    }

    fn note_start(&self, pod: &Tree, at: usize, launch: &Launch, images: bool, out: &mut Stepped) {
        let one = &self.work.containers[at];
        let mut say = |reason, text: &str| out.notes.push(note(pod, Severity::Normal, reason, text));
        if launch.id.attempt == 0 && !images {
            let program = &launch.argv[0];
            let text = format!(
                "Image \"{}\" is only a name here: {program:?} runs with the programs of this machine",
                one.image
            );
            say(reasons::HOST_PROGRAM, &text);
        }
        say(reasons::CREATED, &format!("Container created: {}", one.name));
        if launch.id.attempt > 1 {
            let text = crash_loop(pod, one, &self.life.beings[at]);
            out.notes.push(note(pod, Severity::Warning, reasons::BACK_OFF, &text));
        }
    }

    /// Of earlier runs only the last one is kept, for its log.
    fn forget_old(&self, at: usize, attempt: u32, machine: &dyn Machine) {
        let Some(old) = attempt.checked_sub(2) else { return };
        let container = self.work.containers[at].name.to_string();
        // What cannot be removed now goes with the pod.
        let _ = machine.containers().forget(&Id { pod: self.uid.to_string(), container, attempt: old });
    }

    /// Puts the volumes on disk, once.
    fn lay_volumes(&mut self, pod: &Tree, place: &mut Place<'_>) -> Result<(), Problem> {
        if self.volumes.is_some() {
            return Ok(());
        }
        let lookup = place.lookup();
        let volumes = dress::volumes(pod, &place.house(&lookup, &self.address))?;
        for (name, volume) in &volumes {
            place.machine.lay(volume).map_err(|why| Problem::with_volume(name, &why))?;
        }
        self.volumes = Some(volumes);
        self.stale = false;
        Ok(())
    }

    /// Files that were made of objects follow their objects.
    fn dress_again(&mut self, pod: &Tree, place: &mut Place<'_>) {
        if !std::mem::take(&mut self.stale) {
            return;
        }
        self.life.hope(place.now);
        let Some(old) = &self.volumes else { return };
        let lookup = place.lookup();
        let Ok(new) = dress::volumes(pod, &place.house(&lookup, &self.address)) else { return };
        for (name, volume) in new.iter().filter(|(name, volume)| old.get(*name) != Some(volume)) {
            if let Err(why) = place.machine.lay(volume) {
                tracing::warn!(pod = %self.key.name, volume = %name, %why, "a volume was not brought up to date");
                self.stale = true;
                return;
            }
        }
        self.volumes = Some(new);
    }

    fn write_hosts(&mut self, pod: &Tree, place: &mut Place<'_>) {
        if self.hosts.is_some() {
            return;
        }
        let text = place.hosts(pod, &self.address);
        match place.machine.write_hosts(&self.uid, &text) {
            Ok(()) => self.hosts = Some(text),
            Err(why) => tracing::warn!(pod = %self.key.name, %why, "the hosts file was not written"),
        }
    }

    /// Names of other pods have changed.
    pub fn neighbours_changed(&mut self) {
        self.hosts = None;
        self.stale |= self.meets_since.is_some();
    }

    /// An object that this pod may name has changed.
    pub fn wardrobe_changed(&mut self) -> Key {
        self.stale = true;
        self.key.clone()
    }

    /// Ends what is left by force; whether something still runs.
    pub fn end_by_force(&mut self, machine: &dyn Machine) -> bool {
        self.stop_now(machine, false, true)
    }

    /// What others may know of this pod.
    #[must_use]
    pub fn resident(&self) -> Resident {
        let all = || self.work.containers.iter().zip(&self.life.beings);
        let waits = |name: &Text, why: &str| (name.to_string(), why.to_owned());
        Resident {
            uid: self.uid.to_string(),
            address: self.address.to_string(),
            attempts: all().filter_map(|(one, being)| Some((one.name.to_string(), being.attempt?))).collect(),
            containers: all().map(|(one, _)| one.name.to_string()).collect(),
            waiting: all()
                .filter(|(_, being)| being.attempt.is_none())
                .map(|(one, being)| match &being.trouble {
                    Some(trouble) => waits(&one.name, &trouble.reason),
                    None if self.life.initialized => waits(&one.name, reasons::CONTAINER_CREATING),
                    None => waits(&one.name, reasons::POD_INITIALIZING),
                })
                .collect(),
        }
    }

    /// How long the pod may take to stop.
    #[must_use]
    pub fn grace(&self) -> Duration {
        if self.life.beings.iter().any(super::being::Being::up) { self.work.grace } else { Duration::ZERO }
    }

    /// Asks all runs to stop, or ends them by force; whether something still runs.
    pub fn stop_now(&mut self, machine: &dyn Machine, ask: bool, force: bool) -> bool {
        self.look_at_runs(machine);
        for at in (0..self.life.beings.len()).filter(|at| self.life.beings[*at].up()) {
            let Some(id) = self.id(at) else { continue };
            if ask {
                machine.containers().signal(&id, self.work.containers[at].stop_signal);
            }
            if force {
                machine.containers().kill(&id);
            }
        }
        self.life.beings.iter().any(super::being::Being::up)
    }

    /// What to tell of a pod that was ended by the node's stop.
    pub fn last_words(&mut self, pod: &Object, setup: &Setup, machine: &dyn Machine) -> Option<Tree> {
        let pod = &pod.tree;
        if Phase::of(pod.str_at(pod_path::PHASE)).ended() {
            return None;
        }
        self.look_at_runs(machine);
        self.life.ending.get_or_insert(Ending { why: EndWhy::Shutdown, by: self.newest });
        self.status(pod, &setup.told.address, self.newest)
    }
}

fn meta_name(container: &Tree) -> &str {
    container.str_at(muster_api::paths::container::NAME)
}

fn note(pod: &Tree, severity: Severity, reason: &'static str, message: &str) -> Step {
    Step::Note(Event {
        action: Text::new(),
        by: managers::KUBELET.clone(),
        about: About::of(&kinds::PODS, "Pod", pod),
        severity,
        reason: reason.into(),
        message: message.into(),
    })
}
