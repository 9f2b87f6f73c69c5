//! CronJobs: validation of schedule and Job template.
//!
//! # Deliberately absent
//!
//! A controller: CronJobs are stored and validated, but start no Jobs.

use muster_schema::error::FieldError;
use muster_tree::Tree;

use super::field_path::FieldPath;
use super::template::TemplateStrategy;
use super::{
    FieldErrors, GenerationRule, ResourceStrategy, StrategyContext, cron_schedule, go_format, job_check,
    job_warnings,
};
use crate::status::Status;

#[derive(Debug)]
pub(super) struct CronJob;

/// Maximum length of a name: Jobs get a suffix of eleven characters.
const NAME_MAX: usize = 52;
const SPEC: FieldPath<'static> = FieldPath::Root("spec");
/// The shared behavior of kinds with a pod template.
const TEMPLATED: TemplateStrategy = TemplateStrategy {
    template: &["spec", "jobTemplate", "spec", "template"],
    selects: false,
    generation: GenerationRule::Spec,
    status: true,
};

impl ResourceStrategy for CronJob {
    fn default(&self, tree: Tree) -> Tree {
        TEMPLATED.default(tree)
    }

    fn prepare_create(&self, tree: Tree, cx: &StrategyContext<'_>) -> Result<Tree, Status> {
        TEMPLATED.prepare_create(tree, cx)
    }

    fn validate_create(&self, new: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        check(new.get("spec").unwrap_or(&Tree::Null), None, errors);
        let name = new.str_at(&["metadata", "name"]);
        if name.len() > NAME_MAX {
            let why = format!("must be no more than {NAME_MAX} characters");
            errors.push(FieldError::invalid("metadata.name", name, why));
        }
    }

    fn validate_update(&self, new: &Tree, old: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        check(new.get("spec").unwrap_or(&Tree::Null), old.get("spec"), errors);
    }

    fn warnings(&self, new: &Tree, old: Option<&Tree>) -> Vec<String> {
        let mut all = if old.is_none() { job_warnings::name(new) } else { Vec::new() };
        if old.is_none_or(|old| old.get("spec") != new.get("spec")) {
            let spec = new.at(&["spec", "jobTemplate", "spec"]).unwrap_or(&Tree::Null);
            all.extend(job_warnings::spec(spec, "spec.jobTemplate.spec"));
        }
        all
    }

    fn generation(&self) -> GenerationRule {
        TEMPLATED.generation
    }
}

fn check(spec: &Tree, old: Option<&Tree>, errors: &mut FieldErrors) {
    schedule(spec, old, errors);
    for key in ["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        SPEC.field(key).not_negative(spec.int_at(&[key]), errors);
    }
    if old.is_none_or(|old| old.get("timeZone") != spec.get("timeZone")) {
        zone(spec, errors);
    }
    SPEC.field("concurrencyPolicy").one_of(
        spec.str_at(&["concurrencyPolicy"]),
        &["Allow", "Forbid", "Replace"],
        errors,
    );
    let place = SPEC.field("jobTemplate");
    let place = place.field("spec");
    let job = spec.at(&["jobTemplate", "spec"]).unwrap_or(&Tree::Null);
    job_check::spec(job, &place, errors);
    if let Some(selector) = job.get("selector") {
        let shown = go_format::ordered(selector, &["matchLabels", "matchExpressions"]);
        errors.push(FieldError::invalid_as(
            place.field("selector"),
            &shown,
            "`selector` will be auto-generated",
        ));
    }
    if job.bool_at(&["manualSelector"]) == Some(true) {
        let at = place.field("manualSelector");
        errors.push(FieldError::not_supported(at, true, ["nil", "false"]));
    }
}

fn schedule(spec: &Tree, old: Option<&Tree>, errors: &mut FieldErrors) {
    let (at, schedule) = (SPEC.field("schedule"), spec.str_at(&["schedule"]));
    if schedule.is_empty() {
        return at.required(errors);
    }
    if let Err(why) = cron_schedule::check(schedule) {
        errors.push(FieldError::invalid(at, schedule, why));
    }
    let had = old.is_some_and(|old| old.str_at(&["schedule"]).contains("TZ"));
    let why = match (schedule.contains("TZ"), had) {
        (true, false) => "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
        (true, true) if spec.get("timeZone").is_some() => {
            "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        }
        _ => return,
    };
    errors.push(FieldError::invalid(at, schedule, why));
}

fn zone(spec: &Tree, errors: &mut FieldErrors) {
    let Some(zone) = spec.get("timeZone").and_then(Tree::as_str) else {
        return;
    };
    let mut refuse = |why: &str| errors.push(FieldError::invalid(SPEC.field("timeZone"), zone, why));
    if zone.is_empty() {
        return refuse("timeZone must be nil or non-empty string");
    }
    if !cron_schedule::may_be_zone(zone) {
        return refuse(&format!("unknown time zone {zone}"));
    }
    if zone.eq_ignore_ascii_case("Local") {
        refuse("timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones");
    }
    if let Err(why) = cron_schedule::is_zone(zone) {
        refuse(&why);
    }
}
