//! Query parameters of requests.
//!
//! # Invariants
//!
//! - Malformed numbers are 400; values outside a closed set are 422 on the options' own kind, with kube-apiserver's
//!   messages.
//! - Unknown parameters are ignored, as by kube-apiserver.

use std::time::Duration;

use muster_schema::error::FieldError;
use muster_tree::{Text, Tree};

use super::request_info::decode_percent;
use crate::request::{DeleteOptions, FieldValidation, ListOptions, WriteOptions};
use crate::status::{Status, StatusObject};

const FIELD_MANAGER_BYTES_MAX: usize = 128;
/// Further parameters are ignored.
const PARAMETERS_MAX: usize = 256;

/// Query parameters in request order.
#[derive(Debug, Clone, Default)]
pub struct QueryParams(Vec<(String, String)>);

impl QueryParams {
    /// Parses the query string. A parameter with a malformed escape is dropped.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|p| !p.is_empty()).take(PARAMETERS_MAX);
        let pairs = pairs.filter_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode_percent(key, true)?, decode_percent(value, true)?))
        });
        Self(pairs.collect())
    }

    /// The first value of a parameter.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// All values of a parameter.
    #[must_use]
    pub fn all(&self, key: &str) -> Vec<&str> {
        self.0.iter().filter(|(k, _)| k == key).map(|(_, v)| v.as_str()).collect()
    }

    fn text(&self, key: &str) -> Text {
        self.get(key).map(Text::from).unwrap_or_default()
    }

    /// A boolean: present and neither `false` nor `0` is true, as in Go's conversion of query parameters.
    #[must_use]
    pub fn flag(&self, key: &str) -> Option<bool> {
        self.get(key).map(|value| !matches!(value, "0" | "false"))
    }

    /// An integer.
    ///
    /// # Errors
    /// 400 for a malformed number.
    pub fn number(&self, key: &str) -> Result<Option<i64>, Status> {
        let Some(text) = self.get(key).filter(|t| !t.is_empty()) else {
            return Ok(None);
        };
        let wrong = |_| Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"));
        text.parse().map(Some).map_err(wrong)
    }

    /// `timeoutSeconds`; 0 and negative values mean unset.
    ///
    /// # Errors
    /// 400 for a malformed number.
    pub fn timeout_seconds(&self) -> Result<Option<Duration>, Status> {
        let secs = self.number("timeoutSeconds")?;
        Ok(secs.and_then(|s| u64::try_from(s).ok()).filter(|s| *s > 0).map(Duration::from_secs))
    }

    /// `timeout`: the request timeout as a Go duration.
    ///
    /// # Errors
    /// 400 for a malformed duration.
    pub fn timeout(&self) -> Result<Option<Duration>, Status> {
        let Some(text) = self.get("timeout").filter(|t| !t.is_empty()) else {
            return Ok(None);
        };
        let wrong = || {
            let why = format!("time: invalid duration {text:?}");
            Status::bad_request(format!("invalid timeout specified in the request URL - {why}"))
        };
        parse_duration(text).map(|d| (!d.is_zero()).then_some(d)).ok_or_else(wrong)
    }

    /// ListOptions of a list or watch.
    ///
    /// # Errors
    /// 400 for malformed numbers.
    pub fn list_options(&self) -> Result<ListOptions, Status> {
        self.timeout_seconds()?;
        let limit = self.number("limit")?.unwrap_or(0);
        Ok(ListOptions {
            label_selector: self.text("labelSelector"),
            field_selector: self.text("fieldSelector"),
            resource_version: self.text("resourceVersion"),
            resource_version_match: self.text("resourceVersionMatch"),
            limit: usize::try_from(limit).unwrap_or(0),
            continue_token: self.text("continue"),
            send_initial_events: self.flag("sendInitialEvents"),
            allow_bookmarks: self.flag("allowWatchBookmarks").unwrap_or(false),
        })
    }

    /// CreateOptions, UpdateOptions or PatchOptions; `kind` is the name in messages.
    ///
    /// # Errors
    /// 422 with every invalid option.
    pub fn write_options(&self, kind: &str, user_agent: &str) -> Result<WriteOptions, Status> {
        let mut errors = Vec::new();
        let manager = self.text("fieldManager");
        check_manager(&manager, &mut errors);
        let dry_run = self.dry_run(&mut errors);
        let field_validation = match self.get("fieldValidation").unwrap_or("") {
            "" | "Warn" => FieldValidation::Warn,
            "Strict" => FieldValidation::Strict,
            "Ignore" => FieldValidation::Ignore,
            other => {
                let known = ["", "Ignore", "Strict", "Warn"];
                errors.push(FieldError::not_supported("fieldValidation", other, known));
                FieldValidation::Warn
            }
        };
        refuse(kind, &errors)?;
        // Apply requires an explicit manager: a default would change ownership with the client's version.
        let field_manager = if manager.is_empty() { manager_of_agent(user_agent) } else { manager };
        Ok(WriteOptions { field_manager, field_validation, dry_run })
    }

    /// PatchOptions: as [`QueryParams::write_options`], with `force` and the rules of server-side apply.
    ///
    /// # Errors
    /// 422 as above; also for `force` without apply, and for apply without `fieldManager`.
    pub fn patch_options(&self, apply: bool, user_agent: &str) -> Result<(WriteOptions, bool), Status> {
        let options = self.write_options("PatchOptions", user_agent)?;
        let force = self.flag("force");
        if !apply && force.is_some() {
            let why = "may not be specified for non-apply patch";
            refuse("PatchOptions", &[FieldError::forbidden("force", why)])?;
        }
        if apply && self.get("fieldManager").unwrap_or("").is_empty() {
            refuse("PatchOptions", &[FieldError::required("fieldManager", "is required for apply patch")])?;
        }
        Ok((options, force.unwrap_or(false)))
    }

    /// DeleteOptions from the query, and `dryRun`.
    ///
    /// # Errors
    /// 400 for a malformed number, 422 for invalid values.
    pub fn delete_options(&self) -> Result<(DeleteOptions, bool), Status> {
        let options = DeleteOptions {
            grace_secs: self.number("gracePeriodSeconds")?,
            propagation: self.text("propagationPolicy"),
            orphan_dependents: self.flag("orphanDependents"),
            uid: None,
            resource_version: None,
        };
        let dry_run = self.all("dryRun");
        let dry_run = check_delete(&options, &dry_run)?;
        Ok((options, dry_run))
    }

    fn dry_run(&self, errors: &mut Vec<FieldError>) -> bool {
        check_dry_run(&self.all("dryRun"), errors)
    }
}

/// DeleteOptions from the request body, and `dryRun`.
///
/// # Errors
/// 400 for values of a wrong type, 422 for invalid values.
pub fn delete_options_of(body: &Tree) -> Result<(DeleteOptions, bool), Status> {
    let text = |path: &[&str]| body.at(path).and_then(Tree::as_text).cloned();
    if let Some(wrong) = body.get("gracePeriodSeconds").filter(|g| g.as_int().is_none() && !g.is_null()) {
        return Err(Status::bad_request(format!(
            "json: cannot unmarshal {} into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
            wrong.type_word()
        )));
    }
    let options = DeleteOptions {
        grace_secs: body.int_at(&["gracePeriodSeconds"]),
        propagation: body.text_at(&["propagationPolicy"]),
        orphan_dependents: body.bool_at(&["orphanDependents"]),
        uid: text(&["preconditions", "uid"]),
        resource_version: text(&["preconditions", "resourceVersion"]),
    };
    let dry_run: Vec<&str> = body.items_at(&["dryRun"]).iter().filter_map(Tree::as_str).collect();
    let dry_run = check_delete(&options, &dry_run)?;
    Ok((options, dry_run))
}

fn check_delete(options: &DeleteOptions, dry_run: &[&str]) -> Result<bool, Status> {
    let mut errors = Vec::new();
    let policy = options.propagation.as_str();
    if options.orphan_dependents.is_some() && !policy.is_empty() {
        let why = "orphanDependents and deletionPropagation cannot be both set";
        errors.push(FieldError::invalid("propagationPolicy", policy, why));
    } else if !matches!(policy, "" | "Foreground" | "Background" | "Orphan") {
        let known = ["Foreground", "Background", "Orphan", "nil"];
        errors.push(FieldError::not_supported("propagationPolicy", policy, known));
    }
    let dry_run = check_dry_run(dry_run, &mut errors);
    refuse("DeleteOptions", &errors)?;
    Ok(dry_run)
}

fn check_dry_run(values: &[&str], errors: &mut Vec<FieldError>) -> bool {
    let values: Vec<&str> = values.iter().copied().filter(|v| !v.is_empty()).collect();
    if values.iter().any(|v| *v != "All") {
        errors.push(FieldError::not_supported("dryRun", Tree::list(values.clone()), ["All"]));
    }
    !values.is_empty()
}

fn check_manager(manager: &str, errors: &mut Vec<FieldError>) {
    if manager.len() > FIELD_MANAGER_BYTES_MAX {
        errors.push(FieldError::too_long("fieldManager", FIELD_MANAGER_BYTES_MAX));
    }
    if let Some((at, wrong)) = manager.chars().enumerate().find(|(_, c)| c.is_control()) {
        let why = format!("invalid character U+{:04X} (at position {at})", u32::from(wrong));
        errors.push(FieldError::invalid("fieldManager", manager, why));
    }
}

/// The default field manager: the user agent up to the first slash.
fn manager_of_agent(agent: &str) -> Text {
    let name = agent.split('/').next().unwrap_or_default();
    let mut clean: String = name.chars().filter(|c| !c.is_control()).collect();
    // Pop characters, not bytes: the cut must stay on a character boundary.
    while clean.len() > FIELD_MANAGER_BYTES_MAX {
        clean.pop();
    }
    if clean.is_empty() { Text::from("unknown") } else { Text::from(clean) }
}

fn refuse(kind: &str, errors: &[FieldError]) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(StatusObject { group: "meta.k8s.io", resource: kind, name: "" }, errors))
}

/// Parses a Go duration such as `1h2m3.5s`.
fn parse_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        rest = &rest[letters..];
        sum = sum.checked_add(Duration::try_from_secs_f64(number * unit).ok()?)?;
    }
    (!text.is_empty()).then_some(sum)
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn invalid_write_options_are_rejected() {
        let good = QueryParams::parse("fieldManager=me&dryRun=All&fieldValidation=Strict&unknown=1");
        let options = good.write_options("CreateOptions", "kubectl/v1").unwrap();
        assert_eq!(options.field_manager, "me");
        assert!(options.dry_run);
        assert_eq!(options.field_validation, FieldValidation::Strict);
        for (says, query, want) in [
            ("a dry run is All", "dryRun=x", r#"dryRun: Unsupported value: ["x"]: supported values: "All""#),
            (
                "validation is a closed set",
                "fieldValidation=x",
                r#"fieldValidation: Unsupported value: "x": supported values: "", "Ignore", "Strict", "Warn""#,
            ),
            ("a manager is printable", "fieldManager=%01", "invalid character U+0001 (at position 0)"),
        ] {
            let refusal = QueryParams::parse(query).write_options("CreateOptions", "").unwrap_err();
            assert_eq!(refusal.code, 422, "{says}");
            assert!(refusal.message.starts_with("CreateOptions.meta.k8s.io \"\" is invalid: "), "{says}");
            assert!(refusal.message.contains(want), "{says}: {}", refusal.message);
        }
    }

    #[test]
    fn the_field_manager_defaults_to_the_user_agent() {
        for (agent, want) in [("kubectl/v1.37 (linux)", "kubectl"), ("curl", "curl"), ("", "unknown")] {
            let options = QueryParams::default().write_options("CreateOptions", agent).unwrap();
            assert_eq!(options.field_manager, want);
        }
    }

    #[test]
    fn force_is_for_apply_only_and_apply_needs_a_field_manager() {
        let query = QueryParams::parse("force=true");
        assert!(query.patch_options(false, "").unwrap_err().message.contains("force: Forbidden: may not"));
        assert!(query.patch_options(true, "a").unwrap_err().message.contains("fieldManager: Required value"));
        let (options, force) =
            QueryParams::parse("force=true&fieldManager=m").patch_options(true, "").unwrap();
        assert_eq!((options.field_manager.as_str(), force), ("m", true));
    }

    #[test]
    fn delete_options_from_query_and_body() {
        let (options, dry_run) =
            QueryParams::parse("gracePeriodSeconds=0&propagationPolicy=Orphan&dryRun=All")
                .delete_options()
                .unwrap();
        assert_eq!((options.grace_secs, options.propagation.as_str(), dry_run), (Some(0), "Orphan", true));
        let (options, _) = delete_options_of(&tree!({"preconditions": {"uid": "u"}})).unwrap();
        assert_eq!(options.uid.as_deref(), Some("u"));
        let both = QueryParams::parse("orphanDependents=true&propagationPolicy=Orphan").delete_options();
        assert!(both.unwrap_err().message.contains("cannot be both set"));
        let text = QueryParams::parse("gracePeriodSeconds=x").delete_options().unwrap_err();
        assert_eq!(
            (text.code, text.message.as_str()),
            (400, "strconv.ParseInt: parsing \"x\": invalid syntax")
        );
    }

    #[test]
    fn durations() {
        for (text, want) in [("32s", Some(32_000)), ("1m0.5s", Some(60_500)), ("x", None), ("3", None)] {
            assert_eq!(parse_duration(text), want.map(Duration::from_millis), "{text}");
        }
    }
}
