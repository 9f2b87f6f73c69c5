//! Reads a configuration document.

use std::time::Duration;

use muster_api::quantity;
use muster_api::selector::LabelSelector;
use muster_tree::{Text, Tree, literal, tree};

use super::{
    ExternalFrameworkConfig, FOREIGN, FRAMEWORKS, NAMESPACE_NAME, PodOptions, PreemptionStrategyConfig,
    QueueConfig, QueueConfigError, RequeuingStrategy, ResourcesConfig, RetentionPolicies, SYSTEM,
    TransformationConfig, V1BETA1, WaitForPodsReady,
};

const TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// A document with the errors found so far.
struct Reading<'a> {
    document: &'a Tree,
    own: &'a str,
    wrong: Vec<QueueConfigError>,
}

pub(super) fn settings(document: &Tree, own: &str) -> Result<QueueConfig, Vec<QueueConfigError>> {
    let mut reading = Reading { document, own, wrong: Vec::new() };
    let (frameworks, unserved) = reading.frameworks();
    let settings = QueueConfig {
        frameworks,
        unsupported_frameworks: unserved,
        external: reading.external(),
        label_keys: texts(document.items_at(&["integrations", "labelKeysToCopy"])),
        pods: reading.pods(),
        without_queue_name: document.bool_at(&["manageJobsWithoutQueueName"]) == Some(true),
        namespaces: reading.namespaces(),
        wait_for_pods_ready: reading.wait(),
        resources: reading.resources(),
        fair_sharing: reading.fair_sharing(),
        retention: reading.retention(),
    };
    if reading.wrong.is_empty() { Ok(settings) } else { Err(reading.wrong) }
}

fn texts(items: &[Tree]) -> Vec<Text> {
    items.iter().filter_map(|it| it.as_text().cloned()).collect()
}

impl Reading<'_> {
    fn refuse(&mut self, path: impl Into<String>, words: impl Into<String>) {
        self.wrong.push(QueueConfigError { path: path.into(), words: words.into() });
    }

    fn frameworks(&mut self) -> (Vec<Text>, Vec<Text>) {
        let path = ["integrations", "frameworks"];
        let Some(asked) = self.document.at(&path).filter(|it| it.is_list()) else {
            return (FRAMEWORKS.iter().map(|it| Text::from(*it)).collect(), Vec::new());
        };
        let (mut served, mut unserved) = (Vec::new(), Vec::new());
        for (at, name) in texts(asked.items()).into_iter().enumerate() {
            if FRAMEWORKS.contains(&name.as_str()) {
                served.push(name);
            // Not an error: a Kueue configuration must be usable as it is.
            } else if FOREIGN.contains(&name.as_str()) {
                unserved.push(name);
            } else {
                let words = format!("Unsupported value: {name:?}: known are {}", FRAMEWORKS.join(", "));
                self.refuse(format!("integrations.frameworks[{at}]"), words);
            }
        }
        (served, unserved)
    }

    fn external(&mut self) -> Vec<ExternalFrameworkConfig> {
        let names = texts(self.document.items_at(&["integrations", "externalFrameworks"]));
        let mut all = Vec::new();
        for (at, name) in names.iter().enumerate() {
            let mut parts = name.splitn(3, '.').filter(|it| !it.is_empty());
            match (parts.next(), parts.next(), parts.next()) {
                (Some(kind), Some(version), Some(group)) => {
                    all.push(ExternalFrameworkConfig {
                        kind: kind.into(),
                        version: version.into(),
                        group: group.into(),
                    });
                }
                _ => {
                    let words = format!("Invalid value: {name:?}: must be of the form Kind.version.group");
                    self.refuse(format!("integrations.externalFrameworks[{at}]"), words);
                }
            }
        }
        all
    }

    fn pods(&mut self) -> PodOptions {
        let options = self.document.at(&["integrations", "podOptions"]).cloned().unwrap_or_default();
        let read =
            |key: &str| options.get(key).filter(|it| it.is_map()).map(|it| LabelSelector::of(Some(it)));
        let namespaces = read("namespaceSelector");
        if let Some(selector) = &namespaces {
            let configured = options.get("namespaceSelector").cloned().unwrap_or_default();
            self.spares_the_system(selector, &configured, "integrations.podOptions.namespaceSelector");
        }
        for key in ["namespaceSelector", "podSelector"] {
            let configured = options.get(key).cloned().unwrap_or_default();
            self.expressions(&configured, &format!("integrations.podOptions.{key}"));
        }
        PodOptions { namespaces, pods: read("podSelector") }
    }

    fn namespaces(&mut self) -> LabelSelector {
        let path = "managedJobsNamespaceSelector";
        let Some(tree) = self.document.get(path).filter(|it| it.is_map()) else {
            // The default selects every namespace but the system ones and our own.
            let mut spared: Vec<&str> = SYSTEM.to_vec();
            if !self.own.is_empty() && !spared.contains(&self.own) {
                spared.push(self.own);
            }
            return LabelSelector::of(Some(
                &tree!({"matchExpressions": [{"key": NAMESPACE_NAME, "operator": "NotIn",
                "values": Tree::list(spared)}]}),
            ));
        };
        let (selector, said) = (LabelSelector::of(Some(tree)), tree.clone());
        self.spares_the_system(&selector, &said, path);
        self.expressions(&said, path);
        selector
    }

    /// Validates the expressions of a selector.
    fn expressions(&mut self, selector: &Tree, path: &str) {
        for (at, it) in selector.items_at(&["matchExpressions"]).iter().enumerate() {
            let path = format!("{path}.matchExpressions[{at}]");
            let (operator, values) = (it.str_at(&["operator"]), it.items_at(&["values"]));
            if it.str_at(&["key"]).is_empty() {
                self.refuse(format!("{path}.key"), "Required value: name a label");
            }
            match operator {
                "In" | "NotIn" if values.is_empty() => {
                    let words = "Required value: must be specified when `operator` is 'In' or 'NotIn'";
                    self.refuse(format!("{path}.values"), words);
                }
                "Exists" | "DoesNotExist" if !values.is_empty() => {
                    let words =
                        "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                    self.refuse(format!("{path}.values"), words);
                }
                "" => self
                    .refuse(format!("{path}.operator"), "Required value: In, NotIn, Exists or DoesNotExist"),
                _ => {}
            }
        }
    }

    /// A selector must match neither `kube-system` nor our own namespace.
    fn spares_the_system(&mut self, selector: &LabelSelector, said: &Tree, path: &str) {
        for name in [SYSTEM[0], self.own].into_iter().filter(|it| !it.is_empty()) {
            if selector.matches_labels(&[(literal!("kubernetes.io/metadata.name"), name.into())]) {
                let words = format!(
                    "Invalid value: {}: should not match the {name:?} namespace: leave it out with {{key: {NAMESPACE_NAME}, operator: \
                     NotIn, values: [{name}]}}",
                    said.to_json()
                );
                self.refuse(path, words);
            }
        }
    }

    fn wait(&mut self) -> Option<WaitForPodsReady> {
        let wait = self.document.get("waitForPodsReady").filter(|it| it.is_map())?.clone();
        let is_old = self.document.str_at(&["apiVersion"]) == V1BETA1;
        // `v1beta1` needs `enable: true`; in `v1beta2` presence is enough.
        if is_old && wait.bool_at(&["enable"]) != Some(true) {
            return None;
        }
        let timeout = self.span(&wait, "timeout", "waitForPodsReady").unwrap_or(TIMEOUT);
        // The recovery timeout defaults to the start timeout; 0 disables it.
        let recovery = self.span(&wait, "recoveryTimeout", "waitForPodsReady").unwrap_or(timeout);
        let strategy = wait.get("requeuingStrategy").cloned().unwrap_or_default();
        let number = |key: &str| strategy.int_at(&[key]).and_then(|n| u32::try_from(n).ok());
        let standard = RequeuingStrategy::default();
        let requeuing = RequeuingStrategy {
            by_eviction: strategy.str_at(&["timestamp"]) != "Creation",
            limit: number("backoffLimitCount"),
            base_secs: number("backoffBaseSeconds").unwrap_or(standard.base_secs),
            max_secs: number("backoffMaxSeconds").unwrap_or(standard.max_secs),
        };
        Some(WaitForPodsReady {
            timeout,
            recovery: (!recovery.is_zero()).then_some(recovery),
            blocks: wait.bool_at(&["blockAdmission"]) == Some(true),
            requeuing,
        })
    }

    fn resources(&mut self) -> ResourcesConfig {
        let section = self.document.get("resources").cloned().unwrap_or_default();
        let mut inputs: Vec<Text> = Vec::new();
        let mut transformations = Vec::new();
        for (at, one) in section.items_at(&["transformations"]).iter().enumerate() {
            let path = format!("resources.transformations[{at}]");
            let input = one.text_at(&["input"]);
            if input.is_empty() {
                self.refuse(format!("{path}.input"), "Required value: name a resource");
            } else if inputs.contains(&input) {
                self.refuse(format!("{path}.input"), format!("Duplicate value: {:?}", input.as_str()));
            }
            inputs.push(input.clone());
            transformations.push(self.transformation(one, input, &path));
        }
        ResourcesConfig {
            excluded_prefixes: texts(section.items_at(&["excludeResourcePrefixes"])),
            transformations,
        }
    }

    fn transformation(&mut self, one: &Tree, input: Text, path: &str) -> TransformationConfig {
        for (name, value) in one.entries_at(&["outputs"]) {
            let text = value.as_str().map_or_else(|| value.to_json(), str::to_owned);
            // Outputs are added to requests, which are never negative.
            if quantity::milli(&text).is_none_or(|n| n < 0) {
                let words = format!("Invalid value: {text:?}: must be a quantity that is not negative");
                self.refuse(format!("{path}.outputs[{name}]"), words);
            }
        }
        let multiply_by = one.text_at(&["multiplyBy"]);
        TransformationConfig {
            input,
            retains: one.str_at(&["strategy"]) != "Replace",
            outputs: one.entries_at(&["outputs"]).to_vec(),
            multiply_by: (!multiply_by.is_empty()).then_some(multiply_by),
        }
    }

    fn fair_sharing(&mut self) -> Option<Vec<PreemptionStrategyConfig>> {
        use PreemptionStrategyConfig::{
            LessThanInitialShare as Initial, LessThanOrEqualToFinalShare as Final,
        };
        let section = self.document.get("fairSharing").filter(|it| it.is_map())?.clone();
        let is_old = self.document.str_at(&["apiVersion"]) == V1BETA1;
        // As for `waitForPodsReady`: `v1beta1` needs `enable: true`.
        if is_old && section.bool_at(&["enable"]) != Some(true) {
            return None;
        }
        let names = texts(section.items_at(&["preemptionStrategies"]));
        let names: Vec<&str> = names.iter().map(Text::as_str).collect();
        match names[..] {
            [] | ["LessThanOrEqualToFinalShare", "LessThanInitialShare"] => Some(vec![Final, Initial]),
            ["LessThanOrEqualToFinalShare"] => Some(vec![Final]),
            ["LessThanInitialShare"] => Some(vec![Initial]),
            _ => {
                let words = "Unsupported value: allowed are [LessThanOrEqualToFinalShare], [LessThanInitialShare], and \
                             both in that order";
                self.refuse("fairSharing.preemptionStrategies", words);
                None
            }
        }
    }

    fn retention(&mut self) -> RetentionPolicies {
        let path = "objectRetentionPolicies.workloads";
        let section =
            self.document.at(&["objectRetentionPolicies", "workloads"]).cloned().unwrap_or_default();
        RetentionPolicies {
            after_finished: self.span(&section, "afterFinished", path),
            after_deactivated: self.span(&section, "afterDeactivatedByKueue", path),
        }
    }

    fn span(&mut self, tree: &Tree, key: &str, path: &str) -> Option<Duration> {
        let text = tree.get(key).filter(|it| !it.is_null())?;
        let read = text.as_str().and_then(span);
        if read.is_none() {
            let words = format!("Invalid value: {}: must be a time such as 90s or 1h30m", text.to_json());
            self.refuse(format!("{path}.{key}"), words);
        }
        read
    }
}

/// Parses a Go duration: `90s`, `1h30m`, `1.5h`, `0`.
pub(super) fn span(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let (mut rest, mut total) = (text, 0.0);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let unit = match &rest[..end] {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        total += number * unit;
        rest = &rest[end..];
    }
    (!text.is_empty()).then(|| Duration::try_from_secs_f64(total).ok()).flatten()
}
