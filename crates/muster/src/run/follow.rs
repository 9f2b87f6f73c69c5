//! Follows the work until it finishes, times out or is interrupted: watches, logs, progress, deletion.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use muster_api::client::{Uid, Watcher};
use muster_api::environment::Clock;
use muster_api::kinds;
use muster_api::time::Time;
use muster_api::train::kinds::TRAIN_JOBS;
use muster_cluster::KubeApi;
use muster_operator::ports::SystemClock;
use muster_tree::Text;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::run::display::RunDisplay;
use crate::run::explanations::{NodeSupply, PendingExplanations};
use crate::run::logs::{LogEvent, Logs};
use crate::run::signals::Signals;
use crate::run::snapshot::{RunSnapshot, WatchedKind, Work, WorkKind, WorkResult};
use crate::run::summary::{RunResult, Summary};
use crate::run::{format, pods, submit};

/// The interval of progress updates.
const SHOW_PAUSE: Duration = Duration::from_millis(100);
/// The most log lines of one write to the terminal.
const LINES_AT_ONCE_MAX: usize = 256;
/// The timeout for the remaining log lines of terminated pods.
const LAST_LINES_MAX: Duration = Duration::from_secs(10);
/// How long after their grace period terminating pods are awaited, before they are killed.
const END_EXTRA: Duration = Duration::from_secs(15);
/// The timeout for the last pods of finished Jobs to be observed.
const SETTLE_MAX: Duration = Duration::from_secs(2);
/// The timeout for pods that were deleted with a grace period of 0.
const KILL_MAX: Duration = Duration::from_secs(5);

/// Follows submitted work.
pub struct WorkFollower {
    api: KubeApi,
    picture: RunSnapshot,
    watches: Vec<(WatchedKind, Text, Box<dyn Watcher>)>,
    watch_ready: Arc<Notify>,
    logs: Logs,
    spoken: mpsc::Receiver<LogEvent>,
    screen: RunDisplay,
    began: Time,
    /// Why pods did not run when this run deleted the work, for the summary.
    held_up: BTreeMap<Uid, Vec<String>>,
    explanations: PendingExplanations,
    /// The work that had not finished when this run deleted it.
    cut_short: BTreeSet<Uid>,
}

impl WorkFollower {
    #[must_use]
    pub fn start(api: &KubeApi, works: Vec<Work>, screen: RunDisplay, nodes: NodeSupply) -> WorkFollower {
        let began = SystemClock.now();
        let mut namespaces: Vec<Text> = works.iter().map(|work| work.namespace.clone()).collect();
        namespaces.sort();
        namespaces.dedup();
        let mut watches = Vec::new();
        for namespace in namespaces {
            let mut all = vec![
                (WatchedKind::Jobs, &kinds::JOBS),
                (WatchedKind::Pods, &kinds::PODS),
                (WatchedKind::Events, &kinds::EVENTS),
            ];
            // A watch of a kind that the server does not serve would fail for ever.
            let any = |wanted: &[WorkKind]| works.iter().any(|work| wanted.contains(&work.kind));
            if any(&[WorkKind::JobSet, WorkKind::TrainJob]) {
                all.push((WatchedKind::JobSets, &kinds::JOBSETS));
            }
            if any(&[WorkKind::TrainJob]) {
                all.push((WatchedKind::TrainJobs, &TRAIN_JOBS));
            }
            for (watch, kind) in all {
                watches.push((watch, namespace.clone(), api.watch_namespace(kind, &namespace)));
            }
        }
        let (logs, spoken) = Logs::new(api.clone());
        let picture = RunSnapshot::new(works, began);
        let (bell, held_up, cut_short) = (Arc::default(), BTreeMap::new(), BTreeSet::new());
        let (api, waits) = (api.clone(), PendingExplanations::new(api, nodes));
        WorkFollower {
            api,
            picture,
            watches,
            watch_ready: bell,
            logs,
            spoken,
            screen,
            began,
            held_up,
            explanations: waits,
            cut_short,
        }
    }

    /// Waits until all work has finished, the timeout expires or a signal arrives.
    ///
    /// With `held_max`, no other client can create what pods lack: when all pods have been blocked for that long, the result
    /// is stuck. Work that can never run on this cluster is stuck at once.
    pub async fn run_until_done(
        &mut self,
        time_max: Option<Duration>,
        held_max: Option<Duration>,
        signals: &Signals,
    ) -> RunResult {
        let mut held_since = None;
        let mut is_stuck = move |picture: &RunSnapshot| {
            let since = picture.is_blocked().then(|| held_since.unwrap_or_else(Instant::now));
            held_since = since;
            picture.is_impossible() || since.zip(held_max).is_some_and(|(since, max)| since.elapsed() >= max)
        };
        let deadline = time_max.map(|max| Instant::now() + max);
        let up = async {
            match deadline {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.until(|picture| picture.result().is_some() || is_stuck(picture)) => {
                match self.picture.result() {
                    Some(WorkResult::Completed) => RunResult::Completed,
                    Some(WorkResult::Failed(_)) => RunResult::Failed,
                    None => RunResult::Stuck,
                }
            }
            outcome = signals.wait(1) => outcome,
            () = up => RunResult::TimedOut,
        }
    }

    /// Deletes the work and waits for its pods: for their grace period, or until a further signal; then kills them.
    pub async fn terminate(&mut self, signals: &Signals, signals_so_far: usize) {
        let grace = self.picture.live_pods().map(pods::grace_secs).max().unwrap_or(0);
        self.screen.print_message("Stopping (Ctrl-C again to force)");
        let works = self.picture.works().to_vec();
        let reasons = self.picture.rows().into_iter().map(|row| format::reasons(&row));
        let lives = |work: &&Work| self.picture.result_of(work).is_none();
        self.cut_short = works.iter().filter(lives).map(|work| work.uid.clone()).collect();
        self.held_up = works.iter().map(|work| work.uid.clone()).zip(reasons).collect();
        submit::delete_work(&self.api, &works).await;
        let gone = self.until(|picture| picture.live_pods().next().is_none());
        tokio::select! {
            gone = tokio::time::timeout(Duration::from_secs(grace) + END_EXTRA, gone) => {
                if gone.is_ok() {
                    return;
                }
            }
            _ = signals.wait(signals_so_far + 1) => {}
        }
        submit::force_delete_pods(&self.api, self.picture.live_pods()).await;
        let gone = self.until(|picture| picture.live_pods().next().is_none());
        if tokio::time::timeout(KILL_MAX, gone).await.is_err() {
            self.screen.print_message("not all pods have ended");
        }
    }

    /// Prints the remaining log lines and returns the summary.
    pub async fn finish(mut self, outcome: RunResult) -> Summary {
        self.pull();
        // A Job may be observed as finished before its pods are. Wait for them: the summary needs their exit codes and logs.
        let _ = tokio::time::timeout(SETTLE_MAX, self.until(RunSnapshot::is_settled)).await;
        self.screen.show(&self.picture.rows(), self.took(), SystemClock.now());
        let WorkFollower { logs, mut spoken, mut screen, picture, held_up, cut_short, .. } = self;
        let mut tasks = logs.close_all();
        let mut lines = Vec::new();
        let all = async {
            while spoken.recv_many(&mut lines, LINES_AT_ONCE_MAX).await > 0 {
                screen.print(&mut lines);
            }
        };
        if tokio::time::timeout(LAST_LINES_MAX, all).await.is_err() {
            tasks.abort_all();
            screen.print_message("not all lines of the logs came in time");
        }
        screen.finish();
        let now = SystemClock.now();
        let mut summary = Summary::of(&picture, outcome, now, &held_up, |uid| screen.last_lines(uid));
        // Work that this run deleted has no result of its own, even if a pod exited with 0 on SIGTERM.
        for part in summary.parts.iter_mut().filter(|part| cut_short.contains(&part.work.uid)) {
            part.ended = None;
        }
        summary
    }

    /// Processes events until the snapshot satisfies a predicate.
    async fn until(&mut self, mut wanted: impl FnMut(&RunSnapshot) -> bool) {
        let mut pause = tokio::time::interval(SHOW_PAUSE);
        let mut lines = Vec::new();
        while !wanted(&self.picture) {
            tokio::select! {
                () = self.watch_ready.notified() => {}
                _ = self.spoken.recv_many(&mut lines, LINES_AT_ONCE_MAX) => self.screen.print(&mut lines),
                _ = pause.tick() => {
                    let rows = self.picture.rows();
                    self.screen.show(&rows, self.took(), SystemClock.now());
                    let why = self.explanations.poll(&mut self.picture);
                    self.screen.explain(&why);
                }
            }
            self.pull();
        }
    }

    /// Applies all pending watch events.
    fn pull(&mut self) {
        let mut changed = false;
        for (watch, namespace, follow) in &mut self.watches {
            while let Some(batch) = follow.try_next() {
                self.picture.apply_batch(*watch, namespace, batch, SystemClock.now());
                changed = true;
            }
            let bell = self.watch_ready.clone();
            follow.notify_when_ready(Box::new(move || bell.notify_one()));
        }
        if changed {
            self.picture.pods().for_each(|pod| self.logs.tail_pod(pod));
        }
    }

    fn took(&self) -> Duration {
        SystemClock.now().since(self.began)
    }
}
