//! Validation of Jobs.

use muster_schema::error::FieldError;
use muster_schema::names;
use muster_schema::selector::Labels;
use muster_tree::{Tree, tree};

use super::field_path::FieldPath;
use super::{FieldErrors, affinity_check, go_format, job_policy, pod_check};
use crate::engine::metadata_check::{check_annotations, check_labels};

/// Maximum parallelism of an indexed Job.
const PARALLELISM_MAX: i64 = 100_000;
const FAILED_INDEXES_MAX: i64 = 100_000;
/// Above this many completions the limits below apply.
const COMPLETIONS_SOFT_MAX: i64 = 100_000;
/// Maximum parallelism and `maxFailedIndexes` of such Jobs.
const TIGHT_MAX: i64 = 10_000;

/// Validates a new Job.
pub(super) fn job(job: &Tree, errors: &mut FieldErrors) {
    let root = FieldPath::Root("spec");
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

/// Validates the spec of a Job, new or changed.
pub(super) fn spec(spec: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
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
    if spec.int_at(&["maxFailedIndexes"]).is_some() && spec.int_at(&["backoffLimitPerIndex"]).is_none() {
        let why = "when maxFailedIndexes is specified";
        errors.push(FieldError::required(at.field("backoffLimitPerIndex"), why));
    }
    mode(spec, at, errors);
    job_policy::pod_failure(spec, at, errors);
    job_policy::success(spec, at, errors);
    replacement(spec, at, errors);
    managed_by(spec, at, errors);
    template(spec, at, errors);
}

fn mode(spec: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let number = |key: &str| spec.int_at(&[key]);
    let mode = spec.str_at(&["completionMode"]);
    at.field("completionMode").absent_or_one_of(
        spec.get("completionMode"),
        &["NonIndexed", "Indexed"],
        errors,
    );
    let invalid = |key: &str, value: i64, why: String| FieldError::invalid(at.field(key), value, why);
    if matches!(mode, "" | "NonIndexed") {
        for key in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if let Some(value) = number(key) {
                errors.push(invalid(key, value, "requires indexed completion mode".to_owned()));
            }
        }
    }
    if mode != "Indexed" {
        return;
    }
    let completions = number("completions");
    if completions.is_none() {
        let why = "when completion mode is Indexed";
        errors.push(FieldError::required(at.field("completions"), why));
    }
    let parallelism = number("parallelism").unwrap_or(0);
    if parallelism > PARALLELISM_MAX {
        let why = format!("must be less than or equal to {PARALLELISM_MAX} when completion mode is Indexed");
        errors.push(invalid("parallelism", parallelism, why));
    }
    let failed = number("maxFailedIndexes");
    if let Some(failed) = failed {
        if completions.is_some_and(|completions| failed > completions) {
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
    if completions.is_some_and(|completions| completions > COMPLETIONS_SOFT_MAX)
        && number("backoffLimitPerIndex").is_some()
    {
        many(failed, parallelism, at, errors);
    }
}

fn many(failed: Option<i64>, parallelism: i64, at: &FieldPath<'_>, errors: &mut FieldErrors) {
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

fn replacement(spec: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    // A failure policy classifies terminal pods, so replacing terminating ones is not allowed with it.
    let words: &[&str] =
        if spec.get("podFailurePolicy").is_some() { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    at.field("podReplacementPolicy").absent_or_one_of(spec.get("podReplacementPolicy"), words, errors);
}

fn managed_by(spec: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let Some(name) = spec.get("managedBy").and_then(Tree::as_str) else {
        return;
    };
    errors.extend(names::manager(&at.field("managedBy").to_string(), name));
}

fn template(spec: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let at = at.field("template");
    let template = spec.get("template").unwrap_or(&Tree::Null);
    metadata(template, &at, errors);
    let place = at.field("spec");
    let pods = template.get("spec").unwrap_or(&Tree::Null);
    pod_check::spec(pods, &place, errors);
    let place = place.field("restartPolicy");
    match pods.str_at(&["restartPolicy"]) {
        // Pods default to Always, which would never let a Job finish.
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

/// Validates the metadata of a pod template.
pub(super) fn metadata(template: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    // kube-apiserver omits `metadata` in these paths.
    let part = |key: &str| template.at(&["metadata", key]);
    check_labels(part("labels"), &at.field("labels").to_string(), errors);
    check_annotations(part("annotations"), &at.field("annotations").to_string(), errors);
}

fn selector(job: &Tree, spec: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    selecting(spec, at, errors);
    let Some(selector) = spec.get("selector").filter(|_| spec.bool_at(&["manualSelector"]) != Some(true))
    else {
        return;
    };
    let own = own_labels(job.str_at(&["metadata", "name"]), job.str_at(&["metadata", "uid"]));
    has_labels(spec, &own, at, errors);
    if Labels::of_selector(Some(selector)).is_some_and(|wanted| !wanted.matches(Some(&own))) {
        let shown = go_format::ordered(selector, &["matchLabels", "matchExpressions"]);
        errors.push(FieldError::invalid_as(at.field("selector"), &shown, "`selector` not auto-generated"));
    }
}

/// Labels of pods when the Job generates its selector.
pub(super) fn own_labels(name: &str, uid: &str) -> Tree {
    tree!({"batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name,
        "controller-uid": uid, "job-name": name})
}

/// With a generated selector the template must have these labels: a client may have set others.
fn has_labels(spec: &Tree, own: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let template = at.field("template");
    let metadata = template.field("metadata");
    let place = metadata.field("labels");
    let labels = spec.at(&["template", "metadata", "labels"]).cloned().unwrap_or_default();
    for (key, value) in own.entries() {
        let must = format!("must be '{}'", value.as_str().unwrap_or_default());
        match labels.get(key) {
            Some(label) if label == value => {}
            Some(_) => errors.push(FieldError::invalid(place.key(key), labels.clone(), must)),
            None => errors.push(FieldError::required(place.key(key), must)),
        }
    }
}

/// The selector is required and must match the template's labels.
pub(super) fn selecting(spec: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let place = at.field("selector");
    let Some(selector) = spec.get("selector") else {
        place.required(errors);
        mismatch(spec, at, errors);
        return;
    };
    let before = errors.len();
    affinity_check::selector(Some(selector), &place, errors);
    // An invalid selector matches nothing; report only that it is invalid.
    let wanted = Labels::of_selector(Some(selector)).filter(|_| errors.len() == before);
    let labels = spec.at(&["template", "metadata", "labels"]);
    if wanted.is_some_and(|wanted| !wanted.matches(labels)) {
        mismatch(spec, at, errors);
    }
}

fn mismatch(spec: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let labels = spec.at(&["template", "metadata", "labels"]).cloned().unwrap_or(Tree::Null);
    let place = at.field("template");
    let place = place.field("metadata");
    errors.push(FieldError::invalid(
        place.field("labels"),
        labels,
        "`selector` does not match template `labels`",
    ));
}
