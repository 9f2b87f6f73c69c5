//! What a Job may ask for.

use muster_schema::error::FieldError;
use muster_schema::selector::Labels;
use muster_tree::Tree;

use super::at::At;
use super::{Errors, affinity_check, job_policy, pod_check};
use crate::engine::metadata_check::{check_annotations, check_labels};
use crate::engine::names;

/// Most pods at once of an indexed Job.
const PARALLELISM_MAX: i64 = 100_000;
/// Most failed indexes.
const FAILED_INDEXES_MAX: i64 = 100_000;
/// Above this many completions, limits per index are tighter.
const COMPLETIONS_SOFT_MAX: i64 = 100_000;
/// Then this many pods at once and this many failed indexes.
const TIGHT_MAX: i64 = 10_000;
/// Longest `managedBy`.
const MANAGED_BY_MAX: usize = 63;

/// What is wrong with a new Job.
pub(super) fn job(job: &Tree, errors: &mut Errors) {
    let root = At::Root("spec");
    let spec = job.get("spec").unwrap_or(&Tree::Null);
    self::spec(spec, &root, errors);
    selector(job, spec, &root, errors);
    let completions = spec.int_at(&["completions"]).unwrap_or(0);
    if spec.str_at(&["completionMode"]) == "Indexed" && completions > 0 {
        let name = job.str_at(&["metadata", "name"]);
        let pod = format!("{name}-{}", completions - 1);
        if !names::label(&pod).is_empty() {
            let why = format!("will not able to create pod with invalid DNS label: {pod}");
            errors.push(FieldError::invalid("metadata.name", name, why));
        }
    }
}

/// What is wrong with the spec of a Job, new or changed.
pub(super) fn spec(spec: &Tree, at: &At<'_>, errors: &mut Errors) {
    for key in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        at.field(key).not_negative(spec.int_at(&[key]), errors);
    }
    mode(spec, at, errors);
    job_policy::pod_failure(spec, at, errors);
    job_policy::success(spec, at, errors);
    replacement(spec, at, errors);
    managed_by(spec, at, errors);
    template(spec, at, errors);
}

fn mode(spec: &Tree, at: &At<'_>, errors: &mut Errors) {
    let number = |key: &str| spec.int_at(&[key]);
    let mode = spec.str_at(&["completionMode"]);
    at.field("completionMode").one_of(mode, &["NonIndexed", "Indexed"], errors);
    let invalid = |key: &str, value: i64, why: String| FieldError::invalid(at.field(key), value, why);
    if mode != "Indexed" {
        for key in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if let Some(value) = number(key) {
                errors.push(invalid(key, value, "requires indexed completion mode".to_owned()));
            }
        }
        return;
    }
    let Some(completions) = number("completions") else {
        let why = "when completion mode is Indexed";
        errors.push(FieldError::required(at.field("completions"), why));
        return;
    };
    let parallelism = number("parallelism").unwrap_or(0);
    if parallelism > PARALLELISM_MAX {
        let why = format!("must be less than or equal to {PARALLELISM_MAX} when completion mode is Indexed");
        errors.push(invalid("parallelism", parallelism, why));
    }
    let failed = number("maxFailedIndexes");
    if let Some(failed) = failed {
        if number("backoffLimitPerIndex").is_none() {
            let why = "when maxFailedIndexes is specified";
            errors.push(FieldError::required(at.field("backoffLimitPerIndex"), why));
        }
        if failed > completions {
            errors.push(invalid(
                "maxFailedIndexes",
                failed,
                "must be less than or equal to completions".to_owned(),
            ));
        }
        if failed > FAILED_INDEXES_MAX {
            let why = format!("must be less than or equal to {FAILED_INDEXES_MAX}");
            errors.push(invalid("maxFailedIndexes", failed, why));
        }
    }
    if completions > COMPLETIONS_SOFT_MAX && number("backoffLimitPerIndex").is_some() {
        many(failed, parallelism, at, errors);
    }
}

fn many(failed: Option<i64>, parallelism: i64, at: &At<'_>, errors: &mut Errors) {
    if parallelism > TIGHT_MAX {
        let why = format!(
            "must be less than or equal to {TIGHT_MAX} when completions are above {COMPLETIONS_SOFT_MAX} and used with backoff limit per index"
        );
        errors.push(FieldError::invalid(at.field("parallelism"), parallelism, why));
    }
    match failed {
        None => {
            let why = format!("must be specified when completions is above {COMPLETIONS_SOFT_MAX}");
            errors.push(FieldError::required(at.field("maxFailedIndexes"), why));
        }
        Some(failed) if failed > TIGHT_MAX => {
            let why = format!(
                "must be less than or equal to {TIGHT_MAX} when completions are above {COMPLETIONS_SOFT_MAX} and used with backoff limit per index"
            );
            errors.push(FieldError::invalid(at.field("maxFailedIndexes"), failed, why));
        }
        Some(_) => {}
    }
}

fn replacement(spec: &Tree, at: &At<'_>, errors: &mut Errors) {
    let words: &[&str] =
        if spec.get("podFailurePolicy").is_some() { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    at.field("podReplacementPolicy").one_of(spec.str_at(&["podReplacementPolicy"]), words, errors);
}

fn managed_by(spec: &Tree, at: &At<'_>, errors: &mut Errors) {
    let Some(name) = spec.get("managedBy").and_then(Tree::as_str) else {
        return;
    };
    let at = at.field("managedBy");
    let (domain, path) = name.split_once('/').unwrap_or((name, ""));
    if path.is_empty() {
        let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        errors.push(FieldError::invalid(at, name, why));
    } else {
        at.problems(domain, names::subdomain(domain), errors);
    }
    if name.len() > MANAGED_BY_MAX {
        errors.push(FieldError::too_long(at, MANAGED_BY_MAX));
    }
}

fn template(spec: &Tree, at: &At<'_>, errors: &mut Errors) {
    let at = at.field("template");
    let template = spec.get("template").unwrap_or(&Tree::Null);
    metadata(template, &at, errors);
    let place = at.field("spec");
    let pods = template.get("spec").unwrap_or(&Tree::Null);
    pod_check::spec(pods, &place, errors);
    let place = place.field("restartPolicy");
    match pods.str_at(&["restartPolicy"]) {
        "" | "Always" => errors.push(FieldError::required(place, "valid values: \"OnFailure\", \"Never\"")),
        word @ "OnFailure" if spec.get("podFailurePolicy").is_some() => {
            errors.push(FieldError::invalid(
                place,
                word,
                "only \"Never\" is supported when podFailurePolicy is specified",
            ));
        }
        "OnFailure" | "Never" => {}
        word => errors.push(FieldError::not_supported(place, word, ["OnFailure", "Never"])),
    }
}

/// What is wrong with the metadata of a template.
pub(super) fn metadata(template: &Tree, at: &At<'_>, errors: &mut Errors) {
    // The real server leaves out `metadata` in these paths.
    let part = |key: &str| template.at(&["metadata", key]);
    check_labels(part("labels"), &at.field("labels").to_string(), errors);
    check_annotations(part("annotations"), &at.field("annotations").to_string(), errors);
}

fn selector(job: &Tree, spec: &Tree, at: &At<'_>, errors: &mut Errors) {
    selecting(spec, at, errors);
    let Some(selector) = spec.get("selector") else {
        return;
    };
    let place = at.field("selector");
    if spec.bool_at(&["manualSelector"]) != Some(true) {
        let uid = job.str_at(&["metadata", "uid"]);
        let key = "batch.kubernetes.io/controller-uid";
        let alone = selector.entries_at(&["matchLabels"]).len() == 1 && selector.entries().len() == 1;
        if !alone || selector.str_at(&["matchLabels", key]) != uid {
            errors.push(FieldError::invalid(place, selector.clone(), "`selector` not auto-generated"));
        }
    }
}

/// There must be a selector, and it must find the pods of the template.
pub(super) fn selecting(spec: &Tree, at: &At<'_>, errors: &mut Errors) {
    let place = at.field("selector");
    let Some(selector) = spec.get("selector") else {
        place.required(errors);
        mismatch(spec, at, errors);
        return;
    };
    affinity_check::selector(Some(selector), &place, errors);
    let selector = Some(selector);
    let labels = spec.at(&["template", "metadata", "labels"]);
    let matches = Labels::of_selector(selector).is_none_or(|wanted| wanted.matches(labels));
    if !matches {
        mismatch(spec, at, errors);
    }
}

fn mismatch(spec: &Tree, at: &At<'_>, errors: &mut Errors) {
    let labels = spec.at(&["template", "metadata", "labels"]).cloned().unwrap_or(Tree::Null);
    let place = at.field("template");
    let place = place.field("metadata");
    errors.push(FieldError::invalid(
        place.field("labels"),
        labels,
        "`selector` does not match template `labels`",
    ));
}
