//! Jobs of the batch group.
//!
//! A Job's template may change only while the Job is suspended, has no start and no active pods. So a stop takes three
//! writes: suspend it and note that it is being stopped; once its pods are gone, take its start away; put the template
//! back and the note away.

use std::collections::BTreeMap;

use muster_api::job::{JobFacts, Mode};
use muster_api::meta;
use muster_api::paths::{condition, job as path, job_status as status, meta as meta_path};
use muster_api::port::Part;
use muster_api::queue::PodSet;
use muster_api::queue::words::{MAIN, TRUE, annotations};
use muster_api::words::{conditions, labels};
use muster_tree::{Text, Tree};

use super::construct::distinct_variables;
use super::infos::Info;
use super::work::{CannotStart, Change, Ended, Named, Step, Stop, Work, last_of_start, main_change};

/// What Jobs are called.
pub const NAMED: Named = Named {
    integration: "batch/job",
    api_version: "batch/v1",
    group: "batch",
    kind: "Job",
    suspend: path::SUSPEND,
};

/// Labels that the Job controller puts on the template.
const OF_CONTROLLER: [&str; 4] = [labels::JOB_UID, labels::JOB_NAME, OLD_JOB_NAME, OLD_JOB_UID];
/// Those of them that a Workload does not show.
const HIDDEN: [&str; 3] = [labels::JOB_UID, OLD_JOB_NAME, OLD_JOB_UID];
/// As older clients know the label with the Job's name.
const OLD_JOB_NAME: &str = "job-name";
/// As older clients know the label with the Job's UID.
const OLD_JOB_UID: &str = "controller-uid";

/// A Job.
#[derive(Debug, Clone)]
pub struct BatchJob<'a> {
    object: &'a Tree,
    facts: JobFacts,
}

impl<'a> BatchJob<'a> {
    /// Reads a Job.
    #[must_use]
    pub fn of(object: &'a Tree) -> BatchJob<'a> {
        BatchJob { object, facts: JobFacts::of(object) }
    }

    fn is_stopping(&self) -> bool {
        meta::annotation(self.object, annotations::STOPPING) == Some(TRUE)
    }

    /// Pods that run at once, at most.
    fn count(&self) -> u32 {
        let most = self.facts.parallelism;
        self.facts.completions.map_or(most, |completions| most.min(completions))
    }

    fn min_parallelism(&self) -> Option<u32> {
        meta::annotation(self.object, annotations::JOB_MIN_PARALLELISM)?.parse().ok()
    }

    fn completions_follow(&self) -> bool {
        meta::annotation(self.object, annotations::JOB_COMPLETIONS_EQUAL_PARALLELISM)
            .and_then(read_bool)
            .unwrap_or(false)
    }

    fn template(&self) -> Tree {
        self.object.at(path::TEMPLATE).cloned().unwrap_or_default()
    }

    /// The Job with so many pods, if their number is not fixed.
    fn sized(&self, job: &Tree, count: u32) -> Tree {
        if self.min_parallelism().is_none() {
            return job.clone();
        }
        let job = job.with(path::PARALLELISM, count);
        if self.completions_follow() { job.with(path::COMPLETIONS, count) } else { job }
    }

    /// Takes the start away from a Job that stands still: its template may change then.
    fn without_start(&self) -> Option<Change> {
        self.facts.status.start_time?;
        let patch = Tree::Null.with(path::STATUS, Tree::Null.with(status::START_TIME, Tree::Null));
        Some(Change { part: Part::Status, patch })
    }

    /// Successes and, where indexes may fail each for itself, failures: what needs no pod any more.
    fn done(&self) -> u32 {
        match (self.facts.mode, self.facts.completions) {
            (Mode::Indexed, Some(below)) => {
                let failed = self.facts.status.failed_indexes.as_deref().unwrap_or_default();
                indexes_below(&[&self.facts.status.completed_indexes, failed], below)
            }
            _ => self.facts.status.succeeded,
        }
    }
}

impl Work for BatchJob<'_> {
    fn named(&self) -> Named {
        NAMED
    }

    fn object(&self) -> &Tree {
        self.object
    }

    fn is_suspended(&self) -> bool {
        self.facts.suspend && !self.is_stopping()
    }

    fn pod_sets(&self) -> Result<Vec<PodSet>, String> {
        Ok(vec![PodSet {
            name: MAIN.into(),
            template: distinct_variables(&without_labels(&self.template(), &HIDDEN)),
            count: self.count(),
            min_count: self.min_parallelism(),
            topology: Tree::Null,
        }])
    }

    fn start(&self, infos: &[Info]) -> Result<Step, CannotStart> {
        let [info] = infos else { return Err(CannotStart::OtherSets { has: 1, admitted: infos.len() }) };
        let template = info.put_into(&self.template())?;
        if template != self.template()
            && let Some(change) = self.without_start()
        {
            return Ok(Step { change, is_told: false });
        }
        let job =
            self.sized(self.object, info.count).with(path::TEMPLATE, template).with(path::SUSPEND, false);
        Ok(last_of_start(self.object, &job))
    }

    fn stop(&self, infos: Option<&[Info]>) -> Stop {
        let note = [meta_path::ANNOTATIONS, &[annotations::STOPPING]].concat();
        let Some([info]) = infos else {
            let job = self.object.with(path::SUSPEND, true).without(&note);
            return Stop::step(main_change(self.object, &job), !self.facts.suspend);
        };
        if !self.facts.suspend {
            let job = self.object.with(path::SUSPEND, true).with(&note, TRUE);
            return Stop::step(main_change(self.object, &job), true);
        }
        let restored = keeping_labels(&self.template(), &info.restore(&self.template()), &OF_CONTROLLER);
        if restored != self.template() {
            if self.is_active() {
                return Stop::Wait("pods are still active");
            }
            if let Some(change) = self.without_start() {
                return Stop::step(Some(change), false);
            }
        }
        let job = self.sized(self.object, info.count).with(path::TEMPLATE, restored).without(&note);
        Stop::step(main_change(self.object, &job), false)
    }

    fn ended(&self) -> Option<Ended> {
        let end = self.facts.finished()?;
        Some(Ended {
            message: end.text_at(condition::MESSAGE),
            succeeded: end.str_at(condition::TYPE) == conditions::COMPLETE,
        })
    }

    fn is_active(&self) -> bool {
        self.facts.status.active != 0
    }

    fn pods_ready(&self) -> bool {
        let status = &self.facts.status;
        let uncounted = u32::try_from(status.uncounted_succeeded.len()).unwrap_or(u32::MAX);
        let there = status.succeeded.saturating_add(status.ready.unwrap_or(0)).saturating_add(uncounted);
        there >= self.count()
    }

    fn reclaimable(&self) -> BTreeMap<Text, u32> {
        let (count, done) = (self.count(), self.done());
        if self.facts.parallelism <= 1 || done == 0 {
            return BTreeMap::new();
        }
        let left = self.facts.completions.unwrap_or(count).saturating_sub(done);
        let free = count.saturating_sub(left);
        if free == 0 { BTreeMap::new() } else { BTreeMap::from([(MAIN.into(), free)]) }
    }
}

/// A switch as annotations spell it.
pub(super) fn read_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

fn without_labels(template: &Tree, keys: &[&str]) -> Tree {
    let Some(labels) = template.at(meta_path::LABELS) else { return template.clone() };
    let left = keys.iter().fold(labels.clone(), |labels, key| labels.without_key(key));
    let left = (!left.is_empty()).then_some(left);
    template.with_option(meta_path::LABELS, left)
}

/// The template `to` with those labels that `from` had: nobody but their controller may take them away.
fn keeping_labels(from: &Tree, to: &Tree, keys: &[&str]) -> Tree {
    let label = |key: &str| from.at(meta_path::LABELS).and_then(|labels| labels.get(key)).cloned();
    let kept = keys.iter().filter_map(|key| Some((*key, label(key)?)));
    let labels = kept.fold(to.at(meta_path::LABELS).cloned().unwrap_or_default(), |labels, (key, value)| {
        labels.with_key(key, value)
    });
    if labels.is_empty() { to.clone() } else { to.with(meta_path::LABELS, labels) }
}

/// How many indexes below a bound stand in one of the texts (`0,2-4`).
fn indexes_below(texts: &[&str], below: u32) -> u32 {
    let run = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        (first <= last && first < below).then(|| (first, last.min(below - 1)))
    };
    let mut runs: Vec<(u32, u32)> = texts.iter().flat_map(|text| text.split(',')).filter_map(run).collect();
    runs.sort_unstable();
    let mut next = 0;
    let mut count = 0;
    for (first, last) in runs {
        let first = first.max(next);
        if last >= first {
            count += last - first + 1;
            next = last + 1;
        }
    }
    count
}
