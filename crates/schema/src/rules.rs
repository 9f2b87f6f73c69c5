//! CEL rules of custom resources.

/// The names in a field path such as `.spec['a.b'].c`; `None` when it is not one.
pub(crate) fn field_path_steps(path: &str) -> Option<Vec<String>> {
    let mut steps = Vec::new();
    let mut rest = path.trim();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("['") {
            let (name, after) = after.split_once("']")?;
            steps.push(name.to_owned());
            rest = after;
        } else {
            let after = rest.strip_prefix('.')?;
            let end = after.find(['.', '[']).unwrap_or(after.len());
            steps.push(after[..end].to_owned());
            rest = &after[end..];
        }
    }
    (!steps.is_empty() && steps.iter().all(|s| !s.is_empty())).then_some(steps)
}
