//! Validation that no two ResourceClaims of a JobSet generate the same name.
//!
//! The name of a claim joins replicatedJob, Job index and template with dashes. All three
//! may contain dashes themselves: `a`, 0 and `b-0-c` generate the same name as `a-0-b`, 0 and `c`. The number of Jobs is
//! not bounded, so names are parsed instead of generated and compared.

use std::collections::BTreeMap;

use muster_api::jobset::{ReplicatedJob, names};
use muster_schema::error::FieldError;

use super::Answer;
use super::claims::place;
use super::create::NewSet;
use crate::build::{effective, own_claim};

pub(super) fn check(set: &NewSet<'_>, answer: &mut Answer) {
    if !set.asked.settings.gates.claim_templates {
        return;
    }
    let with_claims = set.facts.jobs.iter().enumerate().filter(|(_, job)| !job.claims.is_empty());
    let by_name: BTreeMap<&str, (usize, &ReplicatedJob)> =
        with_claims.map(|(at, job)| (job.name.as_str(), (at, job))).collect();
    for (at, long) in by_name.values().copied() {
        // For two names to be equal, one replicatedJob name must be a prefix of the other, followed by a dash.
        for (end, _) in long.name.match_indices('-') {
            let Some((_, short)) = by_name.get(&long.name[..end]).copied() else { continue };
            pair(set, short, (at, long), &long.name[end + 1..], answer);
        }
    }
}

/// `rest` is the long name without the short one and a dash: a Job index, and possibly more.
fn pair(
    set: &NewSet<'_>,
    short: &ReplicatedJob,
    (long_at, long): (usize, &ReplicatedJob),
    rest: &str,
    answer: &mut Answer,
) {
    let (index, beginning) = rest.split_once('-').unwrap_or((rest, ""));
    let Some(short_index) = place_of_job(index, short) else { return };
    for one in effective(short) {
        let made = long.claims.iter().enumerate().filter(|(_, it)| own_claim(long, &it.name).is_none());
        for (template_at, _) in made.filter(|(_, other)| meets(&one.name, beginning, long, &other.name)) {
            let claim =
                names::device_claim(&names::job(&set.facts.name, &short.name, short_index), &one.name);
            answer.problems.push(FieldError::invalid(
                format!("{}.metadata.name", place(long_at, template_at)),
                &long.claims[template_at].name,
                format!("resource claim name {claim} is generated twice"),
            ));
        }
    }
}

/// Whether a template of the short one is: what is left of the long name, the place of one of its Jobs, its template.
fn meets(template: &str, beginning: &str, long: &ReplicatedJob, other: &str) -> bool {
    let rest = match beginning {
        "" => Some(template),
        _ => template.strip_prefix(beginning).and_then(|rest| rest.strip_prefix('-')),
    };
    let index = rest.and_then(|rest| rest.strip_suffix(other)).and_then(|rest| rest.strip_suffix('-'));
    index.is_some_and(|index| place_of_job(index, long).is_some())
}

/// The place of a Job, as names have it: without zeros in front.
pub(super) fn place_of_job(text: &str, job: &ReplicatedJob) -> Option<u32> {
    let index: u32 = text.parse().ok()?;
    (index < job.replicas && index.to_string() == text).then_some(index)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use muster_api::paths::jobset as path;
    use muster_tree::{Tree, tree};

    use crate::admission::testing::{expect, problems, set};

    fn with(jobs: &[(&str, i64, &[&str])]) -> Tree {
        let template = |name: &&str| tree!({"metadata": {"name": *name}, "spec": {"devices": {"requests": [{"name": "r"}]}}});
        let job = |(name, replicas, templates): &(&str, i64, &[&str])| {
            tree!({"name": *name, "replicas": *replicas,
                "resourceClaimTemplates": Tree::list(templates.iter().map(template))})
        };
        set(&tree!({})).with(path::JOBS, Tree::list(jobs.iter().map(job)))
    }

    /// Shows: 762-32.
    #[test]
    fn colliding_claim_names_are_rejected() {
        let words = "spec.replicatedJobs[1].resourceClaimTemplates[0].metadata.name: Invalid value: \"c\": resource \
                     claim name s-a-0-b-0-c is generated twice";
        expect(&with(&[("a", 1, &["b-0-c"]), ("a-0-b", 1, &["c"])]), &[words]);
        expect(&with(&[("a", 1, &["0-c"]), ("a-0", 1, &["c"])]), &["name s-a-0-0-c is generated twice"]);
        expect(
            &with(&[("a", 9, &["b-7-c"]), ("a-8-b", 8, &["c"])]),
            &["name s-a-8-b-7-c is generated twice"],
        );
        expect(&with(&[("a", 8, &["b-7-c"]), ("a-8-b", 8, &["c"])]), &[]);
        expect(&with(&[("a", 9, &["b-7-c"]), ("a-8-b", 7, &["c"])]), &[]);
        expect(&with(&[("a", 9, &["b-07-c"]), ("a-8-b", 9, &["c"])]), &[]);
    }

    #[test]
    fn a_claim_of_the_pod_template_is_not_generated() {
        let meeting = with(&[("a", 1, &["b-0-c"]), ("a-0-b", 1, &["c"])]);
        let own = ["template", "spec", "template", "spec", "resourceClaims"];
        let jobs = meeting.at(path::JOBS).unwrap().map_items(|at, job| match at {
            0 => job.clone(),
            _ => job.with(&own, tree!([{"name": "c", "resourceClaimName": "x"}])),
        });
        expect(&meeting.with(path::JOBS, jobs), &[]);
    }

    /// Taking names apart finds the same as making and comparing all of them.
    #[test]
    fn all_small_sets() {
        let names = ["a", "a-0", "a-0-b", "a-1", "b"];
        let templates: [&[&str]; 5] = [&["c"], &["0-c"], &["b-0-c", "1-c"], &["b-1-c"], &["0-1-c"]];
        for (one, other) in
            names.iter().flat_map(|a| names.iter().map(move |b| (a, b))).filter(|(a, b)| a != b)
        {
            for (mine, theirs) in templates.iter().flat_map(|a| templates.iter().map(move |b| (a, b))) {
                let mut made = BTreeSet::new();
                let mut is_twice = false;
                for (job, templates) in [(one, mine), (other, theirs)] {
                    for (index, template) in (0..2).flat_map(|i| templates.iter().map(move |t| (i, t))) {
                        is_twice |= !made.insert(format!("{job}-{index}-{template}"));
                    }
                }
                let got = problems(&with(&[(one, 2, mine), (other, 2, theirs)]));
                assert_eq!(!got.is_empty(), is_twice, "{one} {mine:?} {other} {theirs:?}: {got:?}");
            }
        }
    }
}
