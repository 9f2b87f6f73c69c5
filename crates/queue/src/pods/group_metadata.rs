//! The group metadata of a pod: labels and annotations of both dialects, parsed into one form.
//!
//! # Guarantees
//!
//! - All other code uses [`PodGroupMetadata`]; the keys are read only here.
//! - An invalid pod still has a mode; its errors name the fields.
//!
//! # Deliberately absent
//!
//! Other pods. Whether the pods of a group agree is decided by [`group`](super::group).

use muster_api::meta;
use muster_api::queue::consts::{FALSE, TRUE, annotations, labels};
use muster_schema::error::FieldError;
use muster_schema::names;
use muster_tree::{Text, Tree};

use super::declared_pod_sets::{self, DeclaredPodSet};

pub const ROLES_MAX: u32 = 8;
pub const CONFLICTING: &str = "conflicting group size annotations";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupMode {
    /// Not in a group.
    Single,
    /// `pod-group-total-count`; roles by role hash.
    Total,
    /// Set by the annotation `pod-group-count`.
    Count,
    /// `pod-group-roles` and the count of its own role.
    Roles,
    Sets,
    Prebuilt,
    /// No declaration of its own.
    Member,
}

/// Whether a key is a label or an annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetadataField {
    Label,
    Annotation,
}

impl MetadataField {
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            MetadataField::Label => "label",
            MetadataField::Annotation => "annotation",
        }
    }

    #[must_use]
    pub fn path(self, key: &str) -> String {
        match self {
            MetadataField::Label => format!("metadata.labels[{key}]"),
            MetadataField::Annotation => format!("metadata.annotations[{key}]"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodGroupMetadata {
    pub mode: GroupMode,
    /// The group name and where it was found.
    pub group: Option<(Text, MetadataField)>,
    pub total: Option<u32>,
    pub count: Option<u32>,
    pub roles: Option<u32>,
    pub role: Option<Text>,
    pub role_count: Option<u32>,
    pub sets: Option<Vec<DeclaredPodSet>>,
    /// The name of the prebuilt Workload.
    pub prebuilt: Option<Text>,
    /// Set by the annotation `pod-group-fast-admission`.
    pub fast: bool,
    /// `pod-group-serving`: the group never finishes.
    pub serving: bool,
    /// Set by the annotation `retriable-in-group`.
    pub retriable: bool,
}

impl PodGroupMetadata {
    /// The pod count of its role; 1 by default.
    #[must_use]
    pub fn role_size(&self) -> u32 {
        self.role_count.unwrap_or(1)
    }

    #[must_use]
    pub fn group_name(&self) -> Option<&Text> {
        self.group.as_ref().map(|(name, _)| name)
    }

    /// Whether it declares a size that other pods must agree with.
    #[must_use]
    pub fn declares(&self) -> bool {
        match self.mode {
            GroupMode::Total | GroupMode::Count | GroupMode::Roles | GroupMode::Sets => true,
            GroupMode::Single | GroupMode::Prebuilt | GroupMode::Member => false,
        }
    }
}

/// Parses and validates the group metadata of a pod.
#[must_use]
pub fn read(pod: &Tree) -> (PodGroupMetadata, Vec<FieldError>) {
    let mut reader = MetadataReader { pod, flaws: Vec::new() };
    let decl = reader.decl();
    reader.combinations(&decl);
    (decl, reader.flaws)
}

/// The annotation precedes the label.
#[must_use]
pub fn group_name(pod: &Tree) -> Option<(Text, MetadataField)> {
    let annotated = meta::annotation(pod, labels::POD_GROUP_NAME).filter(|name| !name.is_empty());
    let labelled = || meta::label(pod, labels::POD_GROUP_NAME).filter(|name| !name.is_empty());
    match annotated {
        Some(name) => Some((Text::from(name), MetadataField::Annotation)),
        None => labelled().map(|name| (Text::from(name), MetadataField::Label)),
    }
}

/// The prebuilt Workload of a pod; the label precedes the annotation.
#[must_use]
pub fn prebuilt(pod: &Tree) -> Option<(Text, MetadataField)> {
    let labelled = meta::label(pod, labels::PREBUILT_WORKLOAD).filter(|name| !name.is_empty());
    let annotated = || meta::annotation(pod, labels::PREBUILT_WORKLOAD).filter(|name| !name.is_empty());
    match labelled {
        Some(name) => Some((Text::from(name), MetadataField::Label)),
        None => annotated().map(|name| (Text::from(name), MetadataField::Annotation)),
    }
}

/// The pod set of a role: the one with its name, or the only one that differs by a trailing `s`.
#[must_use]
pub fn set_of_role<'a>(role: &str, names: impl Iterator<Item = &'a str> + Clone) -> Option<usize> {
    if let Some(at) = names.clone().position(|name| name == role) {
        return Some(at);
    }
    let is_near = |name: &str| name.strip_suffix('s') == Some(role) || role.strip_suffix('s') == Some(name);
    let mut near = names.enumerate().filter(|(_, name)| is_near(name)).map(|(at, _)| at);
    // Ambiguous names match nothing.
    match (near.next(), near.next()) {
        (Some(only), None) => Some(only),
        (None, _) | (Some(_), Some(_)) => None,
    }
}

/// The annotations that declare sizes.
pub const SIZE_KEYS: [&str; 6] = [
    annotations::POD_GROUP_TOTAL_COUNT,
    annotations::POD_GROUP_COUNT,
    annotations::POD_GROUP_ROLES,
    annotations::POD_GROUP_ROLE_COUNT,
    annotations::POD_GROUP_ROLE_COUNT_ALIAS,
    annotations::POD_GROUP_SETS,
];

struct MetadataReader<'a> {
    pod: &'a Tree,
    flaws: Vec<FieldError>,
}

impl MetadataReader<'_> {
    fn decl(&mut self) -> PodGroupMetadata {
        let group = group_name(self.pod);
        let total = self.size(annotations::POD_GROUP_TOTAL_COUNT);
        let count = self.size(annotations::POD_GROUP_COUNT);
        let roles = self.roles();
        let role = meta::label(self.pod, labels::POD_GROUP_ROLE).map(Text::from);
        let role_count = self.role_count();
        let sets = self.sets(role.as_deref());
        let prebuilt = prebuilt(self.pod);
        self.names(group.as_ref(), role.as_deref());
        let said = |key: &str| meta::annotation(self.pod, key);
        PodGroupMetadata {
            mode: self.mode(group.is_some(), prebuilt.is_some()),
            total,
            count,
            roles,
            role,
            role_count,
            sets,
            prebuilt: prebuilt.map(|(name, _)| name),
            fast: said(annotations::FAST_ADMISSION) == Some(TRUE),
            serving: said(annotations::SERVING) == Some(TRUE),
            retriable: said(annotations::RETRIABLE_IN_GROUP) != Some(FALSE),
            group,
        }
    }

    fn has(&self, key: &str) -> bool {
        meta::annotation(self.pod, key).is_some()
    }

    /// By presence of keys, valid or not: a typo must not select another mode.
    fn mode(&self, is_member: bool, is_prebuilt: bool) -> GroupMode {
        let total = self.has(annotations::POD_GROUP_TOTAL_COUNT);
        if !is_member {
            GroupMode::Single
        } else if self.has(annotations::POD_GROUP_SETS) {
            GroupMode::Sets
        } else if self.has(annotations::POD_GROUP_ROLES) {
            GroupMode::Roles
        } else if self.has(annotations::POD_GROUP_COUNT) && !total {
            GroupMode::Count
        } else if total {
            GroupMode::Total
        } else if is_prebuilt {
            GroupMode::Prebuilt
        } else {
            GroupMode::Member
        }
    }

    fn flaw(&mut self, key: &str, detail: impl Into<String>) {
        let value = meta::annotation(self.pod, key).unwrap_or_default();
        self.flaws.push(FieldError::invalid(MetadataField::Annotation.path(key), value, detail));
    }

    fn number(&mut self, key: &str) -> Option<i32> {
        let text = meta::annotation(self.pod, key)?;
        match text.parse::<i32>() {
            Ok(number) => Some(number),
            Err(why) => {
                let words = number_problem(text, &why);
                self.flaw(key, words);
                None
            }
        }
    }

    fn size(&mut self, key: &str) -> Option<u32> {
        let number = self.number(key)?;
        if number < 1 {
            let why = format!(
                "incorrect annotation value '{key}={}': group total count should be greater than zero",
                meta::annotation(self.pod, key).unwrap_or_default()
            );
            self.flaw(key, why);
        }
        u32::try_from(number).ok().filter(|number| *number >= 1)
    }

    fn roles(&mut self) -> Option<u32> {
        let key = annotations::POD_GROUP_ROLES;
        let text = meta::annotation(self.pod, key)?;
        let number = text.parse::<u32>().ok().filter(|number| (1..=ROLES_MAX).contains(number));
        if number.is_none() {
            self.flaw(key, format!("must be between 1 and {ROLES_MAX}"));
        }
        number
    }

    /// Both keys of the role count; they must agree.
    fn role_count(&mut self) -> Option<u32> {
        let [one, other] =
            [annotations::POD_GROUP_ROLE_COUNT, annotations::POD_GROUP_ROLE_COUNT_ALIAS].map(|key| {
                let number = self.number(key)?;
                if number < 1 {
                    self.flaw(key, "must be greater than zero");
                }
                u32::try_from(number).ok().filter(|number| *number >= 1)
            });
        if let (Some(one), Some(other)) = (one, other)
            && one != other
        {
            self.flaw(annotations::POD_GROUP_ROLE_COUNT_ALIAS, CONFLICTING);
        }
        one.or(other)
    }

    fn sets(&mut self, role: Option<&str>) -> Option<Vec<DeclaredPodSet>> {
        let key = annotations::POD_GROUP_SETS;
        let all = match declared_pod_sets::read(meta::annotation(self.pod, key)?) {
            Ok(all) => all,
            Err(why) => {
                self.flaw(key, why);
                return None;
            }
        };
        let names: Vec<&str> = all.iter().map(|set| set.name.as_str()).collect();
        let last = names.len() - 1;
        match role {
            Some(role) if set_of_role(role, names.iter().copied()).is_none() => {
                let known = names.join(", ");
                self.flaw(key, format!("entries 0 to {last} ({known}): none is of this pod's role {role:?}"));
            }
            None if all.iter().all(|set| set.template.is_some()) => {
                let why = format!(
                    "entries 0 to {last} have templates: none is left for this pod, which names no role"
                );
                self.flaw(key, why);
            }
            Some(_) | None => {}
        }
        Some(all)
    }

    fn names(&mut self, group: Option<&(Text, MetadataField)>, role: Option<&str>) {
        if let Some((name, side)) = group {
            let path = side.path(labels::POD_GROUP_NAME);
            let wrong = names::subdomain(name).into_iter();
            self.flaws.extend(wrong.map(|why| FieldError::invalid(path.clone(), name, why)));
        }
        if let Some(role) = role {
            let path = MetadataField::Label.path(labels::POD_GROUP_ROLE);
            let wrong = names::label(role).into_iter();
            self.flaws.extend(wrong.map(|why| FieldError::invalid(path.clone(), role, why)));
        }
    }

    /// Validates the combination of keys.
    fn combinations(&mut self, decl: &PodGroupMetadata) {
        let pod = self.pod;
        let has = |key: &str| meta::annotation(pod, key).is_some();
        let is_sized = SIZE_KEYS.iter().any(|key| has(key));
        let total = annotations::POD_GROUP_TOTAL_COUNT;
        match &decl.group {
            Some((_, side)) if !is_sized && decl.role.is_none() && decl.prebuilt.is_none() => {
                let words = both(*side) + &self.wrong_side();
                self.flaws.push(FieldError::required(MetadataField::Annotation.path(total), words));
            }
            None if is_sized || decl.role.is_some() => {
                let words = both(MetadataField::Label) + &self.wrong_side();
                self.flaws
                    .push(FieldError::required(MetadataField::Label.path(labels::POD_GROUP_NAME), words));
            }
            Some(_) | None => {}
        }
        if has(annotations::POD_GROUP_ROLES) && decl.role.is_none() {
            let words = format!("needed beside {}", annotations::POD_GROUP_ROLES) + &self.wrong_side();
            self.flaws.push(FieldError::required(MetadataField::Label.path(labels::POD_GROUP_ROLE), words));
        }
        for key in conflicts(pod, decl) {
            self.flaw(key, CONFLICTING);
        }
        if let (Some((name, side)), Some((group, _))) = (prebuilt(pod), &decl.group)
            && name != *group
        {
            let path = side.path(labels::PREBUILT_WORKLOAD);
            let words = "prebuilt workload and pod group should be equal";
            self.flaws.push(FieldError::invalid(path, &name, words));
        }
    }

    /// A hint appended to an error when a key has the wrong kind.
    fn wrong_side(&self) -> String {
        misplaced(self.pod).into_iter().map(|words| format!("; {words}")).collect()
    }
}

fn both(side: MetadataField) -> String {
    format!(
        "both the '{}' annotation and the '{}' {} should be set",
        annotations::POD_GROUP_TOTAL_COUNT,
        labels::POD_GROUP_NAME,
        side.word()
    )
}

/// The size keys that contradict others.
fn conflicts(pod: &Tree, decl: &PodGroupMetadata) -> Vec<&'static str> {
    let has = |key: &str| meta::annotation(pod, key).is_some();
    let mut all = Vec::new();
    let sum = decl.sets.as_ref().map(|sets| sets.iter().map(|set| u64::from(set.count)).sum::<u64>());
    let differs = |a: Option<u64>, b: Option<u64>| matches!((a, b), (Some(a), Some(b)) if a != b);
    let total = decl.total.map(u64::from);
    let count = has(annotations::POD_GROUP_COUNT);
    let roles = has(annotations::POD_GROUP_ROLES);
    // A pod declares its group in one way, and the sums must match the total count.
    if has(annotations::POD_GROUP_SETS) && (count || roles) || differs(sum, total) {
        all.push(annotations::POD_GROUP_SETS);
    }
    if count && roles || differs(decl.count.map(u64::from), total) {
        all.push(annotations::POD_GROUP_COUNT);
    }
    if differs(own_set(decl).map(|set| u64::from(set.count)), decl.role_count.map(u64::from)) {
        all.push(annotations::POD_GROUP_ROLE_COUNT);
    }
    all
}

/// The pod set of a pod that declares pod sets: by its role, else the first one without a template.
#[must_use]
pub fn own_set(decl: &PodGroupMetadata) -> Option<&DeclaredPodSet> {
    let sets = decl.sets.as_ref()?;
    match &decl.role {
        Some(role) => set_of_role(role, sets.iter().map(|set| set.name.as_str())).map(|at| &sets[at]),
        None => sets.iter().find(|set| set.template.is_none()),
    }
}

/// Warnings about keys set as label instead of annotation, or the reverse.
#[must_use]
pub fn misplaced(pod: &Tree) -> Vec<String> {
    let sizes = SIZE_KEYS.iter().filter(|key| meta::label(pod, key).is_some());
    let sizes = sizes.map(|key| format!("'{key}' is a label: it is read as an annotation only"));
    let role = meta::annotation(pod, labels::POD_GROUP_ROLE)
        .map(|_| format!("'{}' is an annotation: it is read as a label only", labels::POD_GROUP_ROLE));
    sizes.chain(role).collect()
}

/// The parse error in Go's wording.
fn number_problem(text: &str, why: &std::num::ParseIntError) -> String {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    let words =
        if matches!(why.kind(), PosOverflow | NegOverflow) { "value out of range" } else { "invalid syntax" };
    format!("strconv.Atoi: parsing {text:?}: {words}")
}
