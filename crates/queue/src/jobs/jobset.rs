//! The `jobset.x-k8s.io/jobset` integration: one pod set per replicatedJob.

use std::collections::BTreeMap;

use muster_api::consts::jobset as words;
use muster_api::jobset::{JobSetFacts, ReplicatedJob};
use muster_api::paths::{condition, jobset as path, replicated_job as job};
use muster_api::queue::PodSet;
use muster_api::queue::consts::JOBSET_INTEGRATION;
use muster_tree::{Text, Tree};

use super::construct::distinct_variables;
use super::generic_job::{
    GenericJob, JobKind, JobOutcome, JobStartError, JobWrite, StopProgress, last_of_start, main_change,
};
use super::podset_info::{PodSetInfo, PodSetInfoConflict};

pub const NAMED: JobKind = JobKind {
    integration: JOBSET_INTEGRATION,
    api_version: words::API_VERSION,
    group: "jobset.x-k8s.io",
    kind: words::KIND,
    suspend: path::SUSPEND,
};

#[derive(Debug, Clone)]
pub struct QueuedJobSet<'a> {
    object: &'a Tree,
    facts: JobSetFacts,
}

impl<'a> QueuedJobSet<'a> {
    #[must_use]
    pub fn of(object: &'a Tree) -> QueuedJobSet<'a> {
        QueuedJobSet { object, facts: JobSetFacts::of(object) }
    }

    /// Changes the pod template of each replicatedJob by its PodSetInfo.
    fn with_templates(
        &self,
        infos: &[PodSetInfo],
        change: impl Fn(&PodSetInfo, &Tree) -> Result<Tree, PodSetInfoConflict>,
    ) -> Result<Tree, JobStartError> {
        let (has, admitted) = (self.facts.jobs.len(), infos.len());
        if has != admitted {
            return Err(JobStartError::OtherSets { has, admitted });
        }
        let mut jobs = Vec::with_capacity(has);
        for one in self.object.items_at(path::JOBS) {
            let name = set_name(&one.text_at(job::NAME));
            let Some(info) = infos.iter().find(|it| it.name == name) else {
                return Err(JobStartError::OtherSets { has, admitted });
            };
            let template = one.at(job::POD_TEMPLATE).cloned().unwrap_or_default();
            jobs.push(one.with(job::POD_TEMPLATE, change(info, &template)?));
        }
        Ok(self.object.with(path::JOBS, Tree::list(jobs)))
    }
}

/// Pod set names are DNS labels.
fn set_name(replicated_job: &str) -> Text {
    Text::from(replicated_job.to_lowercase())
}

fn pods(of: &ReplicatedJob) -> u32 {
    of.replicas.saturating_mul(of.pods())
}

impl GenericJob for QueuedJobSet<'_> {
    fn kind(&self) -> JobKind {
        NAMED
    }

    fn object(&self) -> &Tree {
        self.object
    }

    fn is_suspended(&self) -> bool {
        self.facts.suspend
    }

    fn pod_sets(&self) -> Result<Vec<PodSet>, String> {
        let one = |(of, tree): (&ReplicatedJob, &Tree)| PodSet {
            name: set_name(&of.name),
            template: distinct_variables(tree.at(job::POD_TEMPLATE).unwrap_or(&Tree::Null)),
            count: pods(of),
            min_count: None,
            topology: Tree::Null,
        };
        Ok(self.facts.jobs.iter().zip(self.object.items_at(path::JOBS)).map(one).collect())
    }

    fn start(&self, infos: &[PodSetInfo]) -> Result<JobWrite, JobStartError> {
        let set = self.with_templates(infos, PodSetInfo::merge_into)?.with(path::SUSPEND, false);
        Ok(last_of_start(self.object, &set))
    }

    fn stop(&self, infos: Option<&[PodSetInfo]>) -> StopProgress {
        let restored = infos.and_then(|infos| {
            // With another number of pod sets there is no mapping: only suspend.
            self.with_templates(infos, |info, template| Ok(info.restore(template))).ok()
        });
        let set = restored.unwrap_or_else(|| self.object.clone()).with(path::SUSPEND, true);
        StopProgress::step(main_change(self.object, &set), !self.facts.suspend)
    }

    fn outcome(&self) -> Option<JobOutcome> {
        let end = self.facts.status.terminal_condition()?;
        Some(JobOutcome {
            message: end.text_at(condition::MESSAGE),
            succeeded: end.str_at(condition::TYPE) == words::conditions::COMPLETED,
        })
    }

    fn is_active(&self) -> bool {
        self.facts.status.jobs.iter().any(|it| it.active > 0)
    }

    fn pods_ready(&self) -> bool {
        let there = self.facts.status.jobs.iter().map(|it| u64::from(it.ready) + u64::from(it.succeeded));
        there.sum::<u64>() == self.facts.replicas()
    }

    fn reclaimable_pods(&self) -> BTreeMap<Text, u32> {
        let free = |of: &ReplicatedJob| {
            let done = self.facts.status.job(&of.name)?.succeeded.min(of.replicas);
            (done > 0).then(|| (set_name(&of.name), done.saturating_mul(of.pods())))
        };
        self.facts.jobs.iter().filter_map(free).collect()
    }
}
