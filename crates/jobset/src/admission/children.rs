//! Validates the objects that a JobSet creates together with the JobSet.
//!
//! The validators are those of the API server: a Job, a PersistentVolumeClaim or a ResourceClaim that the server would refuse
//! is refused with the JobSet, instead of each time the controller creates it. The paths in the messages are those of the JobSet.
//!
//! # Guarantees
//!
//! - At most one dry run per replicatedJob and per claim template: all Jobs of a replicatedJob have one template.
//! - An object that cannot be validated never refuses the JobSet. A warning reports it, and the `Stalled` condition reports a
//!   creation that fails later.
//! - A container without an image draws a warning: a mutating webhook may set the image of the Job.
//! - An update is rejected only for errors that it introduces: a template that was accepted stays accepted.
//!
//! # Deliberately absent
//!
//! Services and PodGroups, which users write no templates for.

use std::collections::BTreeSet;

use muster_api::client::Kind;
use muster_api::jobset::{JobSetFacts, ReplicatedJob};
use muster_api::kinds;
use muster_api::paths::{
    jobset as path, jobset_claim as claim, jobset_volumes as volumes, meta, replicated_job as job,
};
use muster_schema::error::FieldError;
use muster_tree::{Text, Tree};

use super::create::NewSet;
use super::{AdmissionContext, Answer, LiveLister, claims};
use crate::FeatureGates;
use crate::build::{Builder, own_claim};

/// Most problems in one refusal.
const PROBLEMS_MAX: usize = 32;

/// The result of a dry-run create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DryRun {
    /// The object is valid.
    Valid,
    /// The object is invalid.
    Invalid(Vec<Cause>),
    /// The kind is not served in this version.
    NotServed,
    /// The object was not validated, and why.
    Unknown(String),
}

/// One field of an object that is wrong, as a `Status` reports it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cause {
    /// The path of the field in the object.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}

/// Validates the objects that a JobSet creates, or the changed ones on update. The JobSet itself is valid.
pub(super) fn check(asked: &AdmissionContext<'_>, answer: &mut Answer) {
    let set = NewSet::of(asked);
    if set.facts.managed_externally || set.facts.deleting {
        return;
    }
    let mut review = Review { live: asked.live, gates: asked.settings.gates, found: Found::default() };
    match asked.old {
        None => review.created(&set),
        Some(old) => review.changed(&set.facts, &JobSetFacts::of(old)),
    }
    review.found.report(answer);
}

/// The dry runs for one JobSet.
struct Review<'a> {
    live: &'a dyn LiveLister,
    gates: FeatureGates,
    found: Found,
}

impl Review<'_> {
    fn created(&mut self, set: &NewSet<'_>) {
        let builder = Builder::new(&set.facts, self.gates);
        for (at, (one, tree)) in set.facts.jobs.iter().zip(set.tree().items_at(path::JOBS)).enumerate() {
            if one.replicas == 0 {
                continue;
            }
            let made = builder.job(one, 0);
            let causes = self.dry_run(&kinds::JOBS, &made, &job_path(at, "")).unwrap_or_default();
            self.found
                .add(causes.iter().filter(|it| !is_dotted_volume(it, &set.facts)), |it| job_path(at, it));
            self.claims(&builder, one, at, tree.items_at(job::CLAIMS), &made);
        }
        self.volumes(&builder, set);
    }

    /// The claims of devices of the first Job, in the version that is served.
    fn claims(&mut self, builder: &Builder<'_>, one: &ReplicatedJob, at: usize, trees: &[Tree], made: &Tree) {
        for (template_at, (template, tree)) in one.claims.iter().zip(trees).enumerate() {
            if own_claim(one, &template.name).is_some() {
                continue;
            }
            let path = claims::place(at, template_at);
            let mut kinds = self.live.device_claim_kinds().into_iter();
            let causes = kinds.find_map(|kind| {
                let claim = builder.device_claim(&kind, made, template);
                self.dry_run(&kind, &claim, &path)
            });
            let causes = causes.unwrap_or_default();
            self.found.add(causes.iter(), |field| format!("{path}.{}", claim_field(tree, field)));
        }
    }

    fn volumes(&mut self, builder: &Builder<'_>, set: &NewSet<'_>) {
        let policies = set.tree().items_at(path::VOLUMES).iter().enumerate();
        let places = policies.flat_map(|(policy, tree)| {
            (0..tree.items_at(volumes::TEMPLATES).len()).map(move |template| (policy, template))
        });
        for (template, (policy, at)) in set.facts.volumes.iter().zip(places) {
            let path = format!("spec.volumeClaimPolicies[{policy}].templates[{at}]");
            let claim = builder.volume_claim(template);
            let causes = self.dry_run(&kinds::PERSISTENT_VOLUME_CLAIMS, &claim, &path).unwrap_or_default();
            self.found.add(causes.iter(), |field| format!("{path}.{field}"));
        }
    }

    /// Validates Jobs with a changed template; errors of the old template are ignored.
    fn changed(&mut self, new: &JobSetFacts, old: &JobSetFacts) {
        let (builder, before) = (Builder::new(new, self.gates), Builder::new(old, self.gates));
        for (at, one) in new.jobs.iter().enumerate().filter(|(_, it)| it.replicas > 0) {
            let Some(was) = old.job(&one.name).filter(|was| was.template != one.template) else { continue };
            let made = builder.job(one, 0);
            let causes = self.dry_run(&kinds::JOBS, &made, &job_path(at, "")).unwrap_or_default();
            if causes.is_empty() {
                continue;
            }
            let known = self.dry_run(&kinds::JOBS, &before.job(was, 0), &job_path(at, ""));
            if self.found.unknown.is_some() {
                continue;
            }
            let known: BTreeSet<Cause> = known.unwrap_or_default().into_iter().collect();
            self.found.add(causes.iter().filter(|it| !known.contains(it)), |field| job_path(at, field));
        }
    }

    /// What is wrong with an object; `None` where its kind is not served so.
    fn dry_run(&mut self, kind: &Kind, object: &Tree, path: &str) -> Option<Vec<Cause>> {
        if self.found.unknown.is_some() {
            return Some(Vec::new());
        }
        // The UID of an owner that is not stored yet is not known.
        match self.live.dry_run(kind, &object.without(meta::OWNERS)) {
            DryRun::Valid => Some(Vec::new()),
            DryRun::Invalid(causes) => Some(causes),
            DryRun::NotServed => None,
            DryRun::Unknown(why) => {
                self.found.unknown = Some((path.trim_end_matches('.').to_owned(), why));
                Some(Vec::new())
            }
        }
    }
}

/// What dry runs found.
#[derive(Default)]
struct Found {
    problems: Vec<FieldError>,
    warnings: Vec<String>,
    /// The template that could not be validated, and why; those after it are not tried.
    unknown: Option<(String, String)>,
}

impl Found {
    fn add<'a>(&mut self, causes: impl Iterator<Item = &'a Cause>, path: impl Fn(&str) -> String) {
        for cause in causes {
            let problem = FieldError::reported(path(&cause.field), cause.message.as_str());
            if is_missing_image(cause) {
                self.warnings.push(problem.to_string());
            } else {
                self.problems.push(problem);
            }
        }
    }

    fn report(mut self, answer: &mut Answer) {
        answer.warnings.append(&mut self.warnings);
        if let Some((path, why)) = self.unknown {
            answer.warnings.push(format!("{path}: not validated before its creation: {why}"));
        }
        let more = self.problems.len().saturating_sub(PROBLEMS_MAX);
        if more > 0 {
            self.problems.truncate(PROBLEMS_MAX);
            self.problems.push(FieldError::reported("spec", format!("and {more} more problems")));
        }
        answer.problems.append(&mut self.problems);
    }
}

/// A field of a Job as a field of the JobSet.
fn job_path(at: usize, field: &str) -> String {
    format!("spec.replicatedJobs[{at}].template.{field}")
}

/// A field of a device claim as a field of its template: the devices stand where the template has them, and a request may leave
/// out `exactly`.
fn claim_field(template: &Tree, field: &str) -> String {
    let (devices, prefix) = match template.at(claim::LONG_DEVICES) {
        Some(devices) => (Some(devices), "spec."),
        None => (template.at(claim::DEVICES), ""),
    };
    let prefix = if field.starts_with("spec.") { prefix } else { "" };
    let requests = devices.map_or(&[][..], |devices| devices.items_at(&["requests"])).iter().enumerate();
    let flat = requests.filter(|(_, request)| request.get("exactly").is_none());
    let field = flat.fold(field.to_owned(), |field, (at, _)| {
        field.replace(&format!("requests[{at}].exactly"), &format!("requests[{at}]"))
    });
    format!("{prefix}{field}")
}

fn is_missing_image(cause: &Cause) -> bool {
    cause.field.ends_with(".image") && cause.message.starts_with("Required value")
}

/// Whether a cause is the name of a shared volume, which may have dots where a volume of a pod may not: a warning says so.
fn is_dotted_volume(cause: &Cause, set: &JobSetFacts) -> bool {
    let is_volume = [".volumes[", ".volumeMounts["].iter().any(|list| cause.field.contains(list));
    let is_named =
        |name: &Text| name.contains('.') && cause.message.contains(&format!("{:?}", name.as_str()));
    is_volume && cause.field.ends_with(".name") && set.volumes.iter().any(|it| is_named(&it.name))
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;
    use crate::admission::testing::{FakeLister, NAMESPACE, asked, set};
    use crate::admission::validate_jobset;

    fn cause(field: &str, message: &str) -> Cause {
        Cause { field: field.to_owned(), message: message.to_owned() }
    }

    /// A cluster in which dry runs of these objects (version, plural and name) are answered so.
    fn cluster<const N: usize>(answers: [(&str, &str, DryRun); N]) -> FakeLister {
        let answers = answers.map(|(kind, name, answer)| ((kind.to_owned(), name.to_owned()), answer));
        FakeLister { dry_runs: answers.into_iter().collect(), ..FakeLister::default() }
    }

    fn template(image: &str) -> Tree {
        tree!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image,
            "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "a.b", "mountPath": "/b"}]}]}}}})
    }

    /// Two replicatedJobs, two shared volumes, and a claim of devices in either form.
    fn whole() -> Tree {
        let flat = tree!({"metadata": {"name": "f"}, "spec": {"spec": {"devices": {"requests": [
            {"name": "r", "deviceClassName": "g"}]}}}});
        let exact = tree!({"metadata": {"name": "e"}, "spec": {"devices": {"requests": [
            {"name": "r", "exactly": {"deviceClassName": "g"}}]}}});
        let storage = tree!({"accessModes": ["ReadWriteOnce"]});
        set(&tree!({
            "replicatedJobs": [
                {"name": "a", "replicas": 3, "template": template("i")},
                {"name": "b", "replicas": 1, "template": template("i"), "resourceClaimTemplates": [exact, flat]}],
            "volumeClaimPolicies": [{}, {"templates": [
                {"metadata": {"name": "data"}, "spec": (storage.clone())},
                {"metadata": {"name": "a.b"}, "spec": storage}]}]}))
    }

    fn problems(answer: &Answer) -> Vec<String> {
        answer.problems.iter().map(ToString::to_string).collect()
    }

    /// The dry runs of a review: plural and name.
    fn dry_runs(live: &FakeLister) -> Vec<String> {
        let asked = live.asked.borrow();
        asked.iter().map(|(kind, it)| format!("{} {}", kind.plural, it.str_at(meta::NAME))).collect()
    }

    #[test]
    fn each_template_is_dry_run_once() {
        let live = FakeLister::default();
        let answer = validate_jobset(&asked(&whole(), None, &live));
        assert_eq!(problems(&answer), Vec::<String>::new());
        assert_eq!(
            dry_runs(&live),
            [
                "jobs s-a-0",
                "jobs s-b-0",
                "resourceclaims s-b-0-e",
                "resourceclaims s-b-0-f",
                "persistentvolumeclaims data-s",
                "persistentvolumeclaims a.b-s"
            ]
        );
        for (_, object) in live.asked.borrow().iter() {
            assert_eq!(object.str_at(meta::NAMESPACE), NAMESPACE);
            assert_eq!(object.at(meta::OWNERS), None, "{object}");
        }
    }

    #[test]
    fn nothing_is_dry_run_where_nothing_is_created() {
        let refused = whole().with(path::MANAGED_BY, "x");
        let foreign = whole().with(path::MANAGED_BY, "a.b/c");
        let empty = set(&tree!({"replicatedJobs": [{"name": "a", "replicas": 0}]}));
        for (says, set) in [("refused", refused), ("of another controller", foreign), ("no Jobs", empty)] {
            let live = FakeLister::default();
            let _ = validate_jobset(&asked(&set, None, &live));
            assert_eq!(dry_runs(&live), Vec::<String>::new(), "{says}");
        }
    }

    #[test]
    fn causes_have_the_paths_of_the_jobset() {
        let live = cluster([
            (
                "v1/jobs",
                "s-b-0",
                DryRun::Invalid(vec![
                    cause(
                        "spec.template.spec.restartPolicy",
                        "Required value: valid values: \"OnFailure\", \"Never\"",
                    ),
                    cause("metadata.labels", "Invalid value: \"?\": no"),
                ]),
            ),
            ("v1/persistentvolumeclaims", "a.b-s", DryRun::Invalid(vec![cause("spec.accessModes", "Bad")])),
            (
                "v1/resourceclaims",
                "s-b-0-e",
                DryRun::Invalid(vec![cause("spec.devices.requests[0].exactly.count", "Bad")]),
            ),
            ("v1/resourceclaims", "s-b-0-f", DryRun::NotServed),
            (
                "v1beta1/resourceclaims",
                "s-b-0-f",
                DryRun::Invalid(vec![
                    cause("spec.devices.requests[0].exactly.count", "Bad"),
                    cause("metadata.labels", "Bad"),
                ]),
            ),
        ]);
        let at = "spec.replicatedJobs[1]";
        let answer = validate_jobset(&asked(&whole(), None, &live));
        assert_eq!(
            problems(&answer),
            [
                format!(
                    "{at}.template.spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\""
                ),
                format!("{at}.template.metadata.labels: Invalid value: \"?\": no"),
                format!("{at}.resourceClaimTemplates[0].spec.devices.requests[0].exactly.count: Bad"),
                format!("{at}.resourceClaimTemplates[1].spec.spec.devices.requests[0].count: Bad"),
                format!("{at}.resourceClaimTemplates[1].metadata.labels: Bad"),
                "spec.volumeClaimPolicies[1].templates[1].spec.accessModes: Bad".to_owned(),
            ]
        );
    }

    #[test]
    fn an_image_may_come_later_and_a_dotted_volume_has_its_own_warning() {
        let live = cluster([(
            "v1/jobs",
            "s-a-0",
            DryRun::Invalid(vec![
                cause("spec.template.spec.containers[0].image", "Required value"),
                cause("spec.template.spec.volumes[1].name", "Invalid value: \"a.b\": must not contain dots"),
                cause("spec.template.spec.containers[0].volumeMounts[1].name", "Not found: \"a.b\""),
            ]),
        )]);
        let answer = validate_jobset(&asked(&whole(), None, &live));
        assert_eq!(problems(&answer), Vec::<String>::new());
        let image = "spec.replicatedJobs[0].template.spec.template.spec.containers[0].image: Required value";
        assert!(answer.warnings.iter().any(|it| it == image), "{:?}", answer.warnings);
        let dots = answer.warnings.iter().filter(|it| it.contains("a.b")).count();
        assert_eq!(dots, 1, "{:?}", answer.warnings);
    }

    #[test]
    fn what_cannot_be_validated_is_a_warning_and_the_last_dry_run() {
        let live = cluster([("v1/jobs", "s-a-0", DryRun::Unknown("too late".to_owned()))]);
        let answer = validate_jobset(&asked(&whole(), None, &live));
        assert_eq!((answer.is_refused(), dry_runs(&live).len()), (false, 1));
        let words = "spec.replicatedJobs[0].template: not validated before its creation: too late";
        assert!(answer.warnings.iter().any(|it| it == words), "{:?}", answer.warnings);
    }

    #[test]
    fn a_refusal_has_a_bounded_length() {
        let many = (0..40).map(|at| cause(&format!("spec.a[{at}]"), "Bad")).collect();
        let live = cluster([("v1/jobs", "s-a-0", DryRun::Invalid(many))]);
        let refused = problems(&validate_jobset(&asked(&whole(), None, &live)));
        assert_eq!((refused.len(), refused[32].as_str()), (33, "spec: and 8 more problems"));
    }

    #[test]
    fn an_update_is_refused_for_what_it_makes_wrong() {
        let old = whole().with(path::SUSPEND, true);
        let selector = |set: &Tree| {
            let jobs = set.at(path::JOBS).unwrap().map_items(|at, one| match at {
                0 => one.with(&[job::POD_SPEC, &["nodeSelector"]].concat(), tree!({"a": "?"})),
                _ => one.clone(),
            });
            set.with(path::JOBS, jobs)
        };
        let (image, label) = (cause("spec.template.spec.containers[0].name", "Bad"), cause("spec.b", "Bad"));
        for (says, answers, want) in [
            ("fine", vec![], None),
            ("as before", vec![image.clone()], None),
            ("worse", vec![image.clone(), label], Some("spec.replicatedJobs[0].template.spec.b: Bad")),
        ] {
            let live = Changing { now: answers, before: vec![image.clone()], asked: Default::default() };
            let new = selector(&old);
            let settings = Default::default();
            let question = AdmissionContext {
                namespace: &NAMESPACE,
                object: &new,
                old: Some(&old),
                live: &live,
                settings: &settings,
            };
            let answer = validate_jobset(&question);
            assert_eq!(problems(&answer).first().map(String::as_str), want, "{says}");
            assert!(live.asked.get() <= 2, "only the Job that changes, as it is and as it was");
        }
        let live = cluster([("v1/jobs", "s-a-0", DryRun::Invalid(vec![image]))]);
        let resumed = old.with(path::SUSPEND, false);
        let answer = validate_jobset(&asked(&resumed, Some(&old), &live));
        assert_eq!((answer.is_refused(), dry_runs(&live).len()), (false, 0), "no template changes");
    }

    /// A cluster that answers otherwise about Jobs with a node selector.
    struct Changing {
        now: Vec<Cause>,
        before: Vec<Cause>,
        asked: std::cell::Cell<usize>,
    }

    impl LiveLister for Changing {
        fn volume_claim(&self, _: &str, _: &str) -> Result<Option<Tree>, String> {
            Ok(None)
        }

        fn device_claims(&self, _: &str, _: &str) -> Result<Vec<Tree>, String> {
            Ok(Vec::new())
        }

        fn node(&self, _: &str) -> Result<Option<Tree>, String> {
            Ok(None)
        }

        fn first_pods(&self, _: &str, _: &str, _: &str) -> Result<Vec<Tree>, String> {
            Ok(Vec::new())
        }

        fn dry_run(&self, _: &Kind, object: &Tree) -> DryRun {
            self.asked.set(self.asked.get() + 1);
            let is_new = object.at(&["spec", "template", "spec", "nodeSelector"]).is_some();
            DryRun::Invalid(if is_new { self.now.clone() } else { self.before.clone() })
        }
    }
}
