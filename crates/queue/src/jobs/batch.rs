//! The `batch/job` integration.
//!
//! The template of a Job is mutable only while the Job is suspended without `startTime` and active pods. So a stop
//! takes three writes: suspend it with an annotation; once its pods are gone, clear `startTime`; restore the
//! template and remove the annotation.

use std::collections::BTreeMap;

use muster_api::client::Subresource;
use muster_api::consts::{conditions, labels};
use muster_api::job::{CompletionMode, JobFacts};
use muster_api::meta;
use muster_api::paths::{condition, job as path, job_status as status, meta as meta_path};
use muster_api::queue::PodSet;
use muster_api::queue::consts::{MAIN, TRUE, annotations};
use muster_tree::{Text, Tree};

use super::construct::distinct_variables;
use super::generic_job::{
    GenericJob, JobKind, JobOutcome, JobPatch, JobStartError, JobWrite, StopProgress, last_of_start,
    main_change,
};
use super::podset_info::PodSetInfo;

pub const NAMED: JobKind = JobKind {
    integration: "batch/job",
    api_version: "batch/v1",
    group: "batch",
    kind: "Job",
    suspend: path::SUSPEND,
};

/// Labels that the Job controller adds to the template.
const OF_CONTROLLER: [&str; 4] = [labels::JOB_UID, labels::JOB_NAME, OLD_JOB_NAME, OLD_JOB_UID];
/// Controller labels that are left out of the Workload.
const HIDDEN: [&str; 3] = [labels::JOB_UID, OLD_JOB_NAME, OLD_JOB_UID];
/// Deprecated label of the Job name.
const OLD_JOB_NAME: &str = "job-name";
/// Deprecated label of the Job UID.
const OLD_JOB_UID: &str = "controller-uid";

#[derive(Debug, Clone)]
pub struct BatchJob<'a> {
    object: &'a Tree,
    facts: JobFacts,
}

impl<'a> BatchJob<'a> {
    #[must_use]
    pub fn of(object: &'a Tree) -> BatchJob<'a> {
        BatchJob { object, facts: JobFacts::of(object) }
    }

    fn is_stopping(&self) -> bool {
        meta::annotation(self.object, annotations::STOPPING) == Some(TRUE)
    }

    /// The maximum of concurrent pods.
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

    /// Sets the parallelism for partial admission.
    fn sized(&self, job: &Tree, count: u32) -> Tree {
        if self.min_parallelism().is_none() {
            return job.clone();
        }
        let job = job.with(path::PARALLELISM, count);
        if self.completions_follow() { job.with(path::COMPLETIONS, count) } else { job }
    }

    /// Clears `startTime` of a suspended Job: then its template is mutable.
    fn without_start(&self) -> Option<JobPatch> {
        self.facts.status.start_time?;
        let patch = Tree::Null.with(path::STATUS, Tree::Null.with(status::START_TIME, Tree::Null));
        Some(JobPatch { part: Subresource::Status, patch })
    }

    /// Succeeded pods and, with `backoffLimitPerIndex`, failed indexes: they need no pod any more.
    fn done(&self) -> u32 {
        match (self.facts.mode, self.facts.completions) {
            (CompletionMode::Indexed, Some(below)) => {
                let failed = self.facts.status.failed_indexes.as_deref().unwrap_or_default();
                indexes_below(&[&self.facts.status.completed_indexes, failed], below)
            }
            _ => self.facts.status.succeeded,
        }
    }
}

impl GenericJob for BatchJob<'_> {
    fn kind(&self) -> JobKind {
        NAMED
    }

    fn object(&self) -> &Tree {
        self.object
    }

    fn is_suspended(&self) -> bool {
        // While the annotation is set the stop is incomplete: the template is not restored yet.
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

    fn start(&self, infos: &[PodSetInfo]) -> Result<JobWrite, JobStartError> {
        let [info] = infos else { return Err(JobStartError::OtherSets { has: 1, admitted: infos.len() }) };
        let template = info.merge_into(&self.template())?;
        // The template is immutable while `startTime` is set, so clear it first, in a write of its own (status
        // subresource).
        if template != self.template()
            && let Some(change) = self.without_start()
        {
            return Ok(JobWrite { change, emits_event: false });
        }
        let job =
            self.sized(self.object, info.count).with(path::TEMPLATE, template).with(path::SUSPEND, false);
        Ok(last_of_start(self.object, &job))
    }

    fn stop(&self, infos: Option<&[PodSetInfo]>) -> StopProgress {
        let note = [meta_path::ANNOTATIONS, &[annotations::STOPPING]].concat();
        // Without an original template there is nothing to restore, and no annotation is needed.
        let Some([info]) = infos else {
            let job = self.object.with(path::SUSPEND, true).without(&note);
            return StopProgress::step(main_change(self.object, &job), !self.facts.suspend);
        };
        if !self.facts.suspend {
            let job = self.object.with(path::SUSPEND, true).with(&note, TRUE);
            return StopProgress::step(main_change(self.object, &job), true);
        }
        let restored = keeping_labels(&self.template(), &info.restore(&self.template()), &OF_CONTROLLER);
        if restored != self.template() {
            if self.is_active() {
                return StopProgress::Wait("pods are still active");
            }
            if let Some(change) = self.without_start() {
                return StopProgress::step(Some(change), false);
            }
        }
        let job = self.sized(self.object, info.count).with(path::TEMPLATE, restored).without(&note);
        StopProgress::step(main_change(self.object, &job), false)
    }

    fn outcome(&self) -> Option<JobOutcome> {
        let end = self.facts.finished_condition()?;
        Some(JobOutcome {
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
        // Uncounted pods have succeeded and are not in `succeeded` yet.
        let there = status.succeeded.saturating_add(status.ready.unwrap_or(0)).saturating_add(uncounted);
        there >= self.count()
    }

    fn reclaimable_pods(&self) -> BTreeMap<Text, u32> {
        let (count, done) = (self.count(), self.done());
        // A Job with one pod at a time has nothing to reclaim before it finishes.
        if self.facts.parallelism <= 1 || done == 0 {
            return BTreeMap::new();
        }
        let left = self.facts.completions.unwrap_or(count).saturating_sub(done);
        let free = count.saturating_sub(left);
        if free == 0 { BTreeMap::new() } else { BTreeMap::from([(MAIN.into(), free)]) }
    }
}

/// Parses a boolean annotation.
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

/// Keeps the controller's labels on a template: they are immutable.
fn keeping_labels(from: &Tree, to: &Tree, keys: &[&str]) -> Tree {
    let label = |key: &str| from.at(meta_path::LABELS).and_then(|labels| labels.get(key)).cloned();
    let kept = keys.iter().filter_map(|key| Some((*key, label(key)?)));
    let labels = kept.fold(to.at(meta_path::LABELS).cloned().unwrap_or_default(), |labels, (key, value)| {
        labels.with_key(key, value)
    });
    if labels.is_empty() { to.clone() } else { to.with(meta_path::LABELS, labels) }
}

/// Counts the indexes below a bound in interval lists such as `0,2-4`.
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
