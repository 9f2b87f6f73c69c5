//! Validation of a new JobSet.
//!
//! All errors are returned at once. An error that concerns no single field is an `Internal error` with the path of its
//! cause, as the upstream webhook returns it.

use muster_api::jobset::{JobSetFacts, RestartStrategy};
use muster_api::paths::meta;
use muster_schema::error::FieldError;
use muster_schema::names;
use muster_tree::{Text, Tree};

use super::{AdmissionContext, Answer, claims, coordinator, failure, gang, jobs, network, volumes};

/// The longest `generateName` prefix that the API server keeps.
const BASE_MAX: usize = 58;
/// Stands for the generated suffix.
const SUFFIX: &str = "xxxxx";
/// Maximum of warnings in one response.
const WARNINGS_MAX: usize = 16;

/// A new JobSet under validation.
pub(super) struct NewSet<'a> {
    pub asked: &'a AdmissionContext<'a>,
    /// The parsed JobSet; with `generateName` the name has the length of the final one.
    pub facts: JobSetFacts,
    /// Whether `metadata.name` is set.
    pub is_named: bool,
}

impl<'a> NewSet<'a> {
    pub fn of(asked: &'a AdmissionContext<'a>) -> NewSet<'a> {
        let given = asked.object.text_at(meta::NAME);
        let is_named = !given.is_empty();
        let name = if is_named { given } else { generated_name(asked.object.str_at(meta::GENERATE_NAME)) };
        let mut facts = JobSetFacts::of(&asked.object.with(meta::NAME, name));
        facts.namespace = asked.namespace.clone();
        NewSet { asked, facts, is_named }
    }

    /// The JobSet as received.
    pub fn tree(&self) -> &'a Tree {
        self.asked.object
    }

    pub fn has_job(&self, name: &str) -> bool {
        self.facts.job(name).is_some()
    }

    /// Whether the restart strategy is `InPlaceRestart`.
    pub fn is_in_place(&self) -> bool {
        self.facts.strategy() == RestartStrategy::InPlace
    }
}

/// A name of the form that `generateName` gives.
fn generated_name(base: &str) -> Text {
    if base.is_empty() {
        return Text::new();
    }
    // A prefix that is not ASCII is rejected elsewhere.
    let base = base.get(..base.len().min(BASE_MAX)).unwrap_or(base);
    Text::from(format!("{base}{SUFFIX}"))
}

/// Validates a new JobSet.
pub(super) fn check(asked: &AdmissionContext<'_>) -> Answer {
    let set = NewSet::of(asked);
    let mut answer = Answer::default();
    if set.is_in_place() && !asked.settings.gates.in_place_restart {
        let why =
            "InPlaceRestart restart strategy cannot be set when InPlaceRestart feature gate is disabled";
        answer.problems.push(FieldError::internal("spec.failurePolicy.restartStrategy", why));
    }
    network::check(&set, &mut answer);
    jobs::check(&set, &mut answer);
    success(&set, &mut answer);
    failure::check(&set, &mut answer);
    coordinator::check(&set, &mut answer);
    volumes::check(&set, &mut answer);
    claims::check(&set, &mut answer);
    gang::check(asked.object, &mut answer);
    answer
}

/// Truncates the warnings to the maximum.
pub(super) fn shorten(warnings: &mut Vec<String>) {
    let more = warnings.len().saturating_sub(WARNINGS_MAX);
    if more > 0 {
        warnings.truncate(WARNINGS_MAX);
        warnings.push(format!("and {more} more warnings"));
    }
}

fn success(set: &NewSet<'_>, answer: &mut Answer) {
    for (at, target) in set.facts.success.targets.iter().enumerate().filter(|(_, it)| !set.has_job(it)) {
        answer.problems.push(FieldError::internal(
            format!("spec.successPolicy.targetReplicatedJobs[{at}]"),
            format!("invalid replicatedJob name '{target}' does not appear in .spec.ReplicatedJobs"),
        ));
    }
}

/// Validates a DNS-1035 label; `too_long` is the message for its length.
pub(super) fn dns_label_errors(path: &str, value: &str, too_long: &str) -> Vec<FieldError> {
    let words = names::word(value).into_iter();
    words
        .map(|why| match value.len() > names::LABEL_MAX && why.starts_with("must be no more than") {
            true => FieldError::invalid(path, value, too_long),
            false => FieldError::invalid(path, value, why),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;
    use crate::FeatureGates;
    use crate::admission::testing::{FakeLister, asked, problems, set};
    use crate::admission::validate_jobset;

    #[test]
    fn a_set_without_jobs_is_legal() {
        assert!(problems(&tree!({"metadata": {"name": "s"}, "spec": {}})).is_empty());
    }

    #[test]
    fn in_place_restarts_need_their_gate() {
        let set = set(&tree!({"failurePolicy": {"restartStrategy": "InPlaceRestart"}}));
        assert_eq!(
            problems(&set)[0],
            "spec.failurePolicy.restartStrategy: Internal error: InPlaceRestart restart strategy cannot be set when \
             InPlaceRestart feature gate is disabled"
        );
        let on = FakeLister::gated(FeatureGates { in_place_restart: true, ..FeatureGates::default() });
        let refused = validate_jobset(&asked(&set, None, &on)).problems;
        assert!(refused.iter().all(|it| !it.detail.contains("feature gate")), "{refused:?}");
    }

    #[test]
    fn targets_of_success_must_exist() {
        let policy = |name: &str| set(&tree!({"successPolicy": {"targetReplicatedJobs": ["w", name]}}));
        assert!(problems(&policy("w")).is_empty());
        assert_eq!(
            problems(&policy("x")),
            [
                "spec.successPolicy.targetReplicatedJobs[1]: Internal error: invalid replicatedJob name 'x' does not \
              appear in .spec.ReplicatedJobs"
            ]
        );
    }

    #[test]
    fn what_pods_ask_for_can_be_read() {
        let asks = |cpu: &str| {
            let pods =
                tree!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]});
            set(
                &tree!({"replicatedJobs": [{"name": "w", "replicas": 1, "template": {"spec": {"template": {"spec": pods}}}}]}),
            )
        };
        assert!(problems(&asks("8.0000000000000000000000000")).is_empty());
        assert_eq!(
            problems(&asks("1e1.5")),
            [
                "spec.replicatedJobs[0].template.spec.template.spec.containers[0].resources.requests[cpu]: Invalid \
                 value: \"1e1.5\": quantities must match the regular expression \
                 '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            ]
        );
    }

    #[test]
    fn a_name_that_the_server_makes_counts_with_what_it_adds() {
        for (base, words) in [("a-", 0), (&*"a".repeat(54), 0), (&"a".repeat(55), 1), (&"a".repeat(99), 1)] {
            let made = set(&tree!({})).without(meta::NAME).with(meta::GENERATE_NAME, base);
            assert_eq!(problems(&made).len(), words, "{base}");
        }
        assert_eq!(generated_name(&"b".repeat(60)).len(), 63);
    }

    #[test]
    fn all_errors_are_returned_at_once() {
        let set = set(&tree!({"managedBy": "x", "network": {"subdomain": "A"},
            "successPolicy": {"targetReplicatedJobs": ["x"]}, "coordinator": {"replicatedJob": "x"}}));
        assert_eq!(problems(&set).len(), 5, "{:?}", problems(&set));
    }
}
