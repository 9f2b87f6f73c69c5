//! What a pod says about its group: both dialects, read into one form.
//!
//! # Invariants
//!
//! - Everything that follows looks at a [`Decl`]; nobody reads the keys of groups again.
//! - A pod that cannot be understood still has a mode, and its flaws say with their paths what is wrong.
//!
//! # Deliberately absent
//!
//! Other pods. Whether the pods of a group agree is told by [`group`](super::group).

use muster_api::meta;
use muster_api::queue::words::{FALSE, TRUE, annotations, labels};
use muster_schema::error::FieldError;
use muster_schema::names;
use muster_tree::{Text, Tree};

use super::sets::{self, DeclaredSet};

/// The most roles that `pod-group-roles` may announce.
pub const ROLES_MAX: u32 = 8;
/// What is said when sizes contradict each other.
pub const CONFLICTING: &str = "conflicting group size annotations";

/// How a pod declares the size of its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// It is no member of a group.
    Single,
    /// The total, and roles by fingerprint.
    Total,
    /// The number of equal pods.
    Count,
    /// The number of roles, and of pods in its own.
    Roles,
    /// All sets.
    Sets,
    /// The user made the Workload.
    Prebuilt,
    /// Nothing: it follows what others of the group declare.
    Member,
}

/// Where a key stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Among the labels.
    Label,
    /// Among the annotations.
    Annotation,
}

impl Side {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Side::Label => "label",
            Side::Annotation => "annotation",
        }
    }

    /// The path of a key there.
    #[must_use]
    pub fn path(self, key: &str) -> String {
        match self {
            Side::Label => format!("metadata.labels[{key}]"),
            Side::Annotation => format!("metadata.annotations[{key}]"),
        }
    }
}

/// What one pod declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decl {
    /// How.
    pub mode: Mode,
    /// The name of its group, and where that stands.
    pub group: Option<(Text, Side)>,
    /// `pod-group-total-count`.
    pub total: Option<u32>,
    /// `pod-group-count`.
    pub count: Option<u32>,
    /// `pod-group-roles`.
    pub roles: Option<u32>,
    /// The role label.
    pub role: Option<Text>,
    /// How many pods its role has, if it says so.
    pub role_count: Option<u32>,
    /// `pod-group-sets`.
    pub sets: Option<Vec<DeclaredSet>>,
    /// The Workload that the user made.
    pub prebuilt: Option<Text>,
    /// The Workload is made from the first pod alone.
    pub fast: bool,
    /// The group never finishes.
    pub serving: bool,
    /// Whether it may be replaced once it has failed.
    pub retriable: bool,
}

impl Decl {
    /// How many pods its role has.
    #[must_use]
    pub fn role_size(&self) -> u32 {
        self.role_count.unwrap_or(1)
    }

    /// The name of its group.
    #[must_use]
    pub fn group_name(&self) -> Option<&Text> {
        self.group.as_ref().map(|(name, _)| name)
    }

    /// Whether it says anything about sizes that others must agree with.
    #[must_use]
    pub fn declares(&self) -> bool {
        match self.mode {
            Mode::Total | Mode::Count | Mode::Roles | Mode::Sets => true,
            Mode::Single | Mode::Prebuilt | Mode::Member => false,
        }
    }
}

/// Reads what a pod declares, and everything that is wrong with it.
#[must_use]
pub fn read(pod: &Tree) -> (Decl, Vec<FieldError>) {
    let mut reader = Reader { pod, flaws: Vec::new() };
    let decl = reader.decl();
    reader.combinations(&decl);
    (decl, reader.flaws)
}

/// The name of a pod's group; the annotation comes before the label.
#[must_use]
pub fn group_name(pod: &Tree) -> Option<(Text, Side)> {
    let annotated = meta::annotation(pod, labels::POD_GROUP_NAME).filter(|name| !name.is_empty());
    let labelled = || meta::label(pod, labels::POD_GROUP_NAME).filter(|name| !name.is_empty());
    match annotated {
        Some(name) => Some((Text::from(name), Side::Annotation)),
        None => labelled().map(|name| (Text::from(name), Side::Label)),
    }
}

/// The Workload that the user made for a pod, and where its name stands.
#[must_use]
pub fn prebuilt(pod: &Tree) -> Option<(Text, Side)> {
    let labelled = meta::label(pod, labels::PREBUILT_WORKLOAD).filter(|name| !name.is_empty());
    let annotated = || meta::annotation(pod, labels::PREBUILT_WORKLOAD).filter(|name| !name.is_empty());
    match labelled {
        Some(name) => Some((Text::from(name), Side::Label)),
        None => annotated().map(|name| (Text::from(name), Side::Annotation)),
    }
}

/// Which of these sets a role belongs to: the one of its name, or the only one that differs in an `s` at the end.
#[must_use]
pub fn set_of_role<'a>(role: &str, names: impl Iterator<Item = &'a str> + Clone) -> Option<usize> {
    if let Some(at) = names.clone().position(|name| name == role) {
        return Some(at);
    }
    let is_near = |name: &str| name.strip_suffix('s') == Some(role) || role.strip_suffix('s') == Some(name);
    let mut near = names.enumerate().filter(|(_, name)| is_near(name)).map(|(at, _)| at);
    match (near.next(), near.next()) {
        (Some(only), None) => Some(only),
        (None, _) | (Some(_), Some(_)) => None,
    }
}

/// The keys that tell a size, all annotations.
pub const SIZE_KEYS: [&str; 6] = [
    annotations::POD_GROUP_TOTAL_COUNT,
    annotations::POD_GROUP_COUNT,
    annotations::POD_GROUP_ROLES,
    annotations::POD_GROUP_ROLE_COUNT,
    annotations::POD_GROUP_ROLE_COUNT_ALIAS,
    annotations::POD_GROUP_SETS,
];

struct Reader<'a> {
    pod: &'a Tree,
    flaws: Vec<FieldError>,
}

impl Reader<'_> {
    fn decl(&mut self) -> Decl {
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
        Decl {
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

    /// By what is there, readable or not: a mistake must not turn one mode into another.
    fn mode(&self, is_member: bool, is_prebuilt: bool) -> Mode {
        let total = self.has(annotations::POD_GROUP_TOTAL_COUNT);
        if !is_member {
            Mode::Single
        } else if self.has(annotations::POD_GROUP_SETS) {
            Mode::Sets
        } else if self.has(annotations::POD_GROUP_ROLES) {
            Mode::Roles
        } else if self.has(annotations::POD_GROUP_COUNT) && !total {
            Mode::Count
        } else if total {
            Mode::Total
        } else if is_prebuilt {
            Mode::Prebuilt
        } else {
            Mode::Member
        }
    }

    fn flaw(&mut self, key: &str, detail: impl Into<String>) {
        let value = meta::annotation(self.pod, key).unwrap_or_default();
        self.flaws.push(FieldError::invalid(Side::Annotation.path(key), value, detail));
    }

    /// A whole number of 32 bits.
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

    /// Both spellings, which have to agree.
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

    fn sets(&mut self, role: Option<&str>) -> Option<Vec<DeclaredSet>> {
        let key = annotations::POD_GROUP_SETS;
        let all = match sets::read(meta::annotation(self.pod, key)?) {
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

    fn names(&mut self, group: Option<&(Text, Side)>, role: Option<&str>) {
        if let Some((name, side)) = group {
            let path = side.path(labels::POD_GROUP_NAME);
            let wrong = names::subdomain(name).into_iter();
            self.flaws.extend(wrong.map(|why| FieldError::invalid(path.clone(), name, why)));
        }
        if let Some(role) = role {
            let path = Side::Label.path(labels::POD_GROUP_ROLE);
            let wrong = names::label(role).into_iter();
            self.flaws.extend(wrong.map(|why| FieldError::invalid(path.clone(), role, why)));
        }
    }

    /// Whether all keys go together.
    fn combinations(&mut self, decl: &Decl) {
        let pod = self.pod;
        let has = |key: &str| meta::annotation(pod, key).is_some();
        let is_sized = SIZE_KEYS.iter().any(|key| has(key));
        let total = annotations::POD_GROUP_TOTAL_COUNT;
        match &decl.group {
            Some((_, side)) if !is_sized && decl.role.is_none() && decl.prebuilt.is_none() => {
                let words = both(*side) + &self.wrong_side();
                self.flaws.push(FieldError::required(Side::Annotation.path(total), words));
            }
            None if is_sized || decl.role.is_some() => {
                let words = both(Side::Label) + &self.wrong_side();
                self.flaws.push(FieldError::required(Side::Label.path(labels::POD_GROUP_NAME), words));
            }
            Some(_) | None => {}
        }
        if has(annotations::POD_GROUP_ROLES) && decl.role.is_none() {
            let words = format!("needed beside {}", annotations::POD_GROUP_ROLES) + &self.wrong_side();
            self.flaws.push(FieldError::required(Side::Label.path(labels::POD_GROUP_ROLE), words));
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

    /// A hint for an error that a key on the wrong side may have caused.
    fn wrong_side(&self) -> String {
        misplaced(self.pod).into_iter().map(|words| format!("; {words}")).collect()
    }
}

fn both(side: Side) -> String {
    format!(
        "both the '{}' annotation and the '{}' {} should be set",
        annotations::POD_GROUP_TOTAL_COUNT,
        labels::POD_GROUP_NAME,
        side.word()
    )
}

/// The keys of sizes that contradict others.
fn conflicts(pod: &Tree, decl: &Decl) -> Vec<&'static str> {
    let has = |key: &str| meta::annotation(pod, key).is_some();
    let mut all = Vec::new();
    let sum = decl.sets.as_ref().map(|sets| sets.iter().map(|set| u64::from(set.count)).sum::<u64>());
    let differs = |a: Option<u64>, b: Option<u64>| matches!((a, b), (Some(a), Some(b)) if a != b);
    let total = decl.total.map(u64::from);
    let count = has(annotations::POD_GROUP_COUNT);
    let roles = has(annotations::POD_GROUP_ROLES);
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

/// The set that a pod which declares sets belongs to: that of its role, or the first that has no template.
#[must_use]
pub fn own_set(decl: &Decl) -> Option<&DeclaredSet> {
    let sets = decl.sets.as_ref()?;
    match &decl.role {
        Some(role) => set_of_role(role, sets.iter().map(|set| set.name.as_str())).map(|at| &sets[at]),
        None => sets.iter().find(|set| set.template.is_none()),
    }
}

/// Keys that stand on the side where nobody reads them, in words.
#[must_use]
pub fn misplaced(pod: &Tree) -> Vec<String> {
    let sizes = SIZE_KEYS.iter().filter(|key| meta::label(pod, key).is_some());
    let sizes = sizes.map(|key| format!("'{key}' is a label: it is read as an annotation only"));
    let role = meta::annotation(pod, labels::POD_GROUP_ROLE)
        .map(|_| format!("'{}' is an annotation: it is read as a label only", labels::POD_GROUP_ROLE));
    sizes.chain(role).collect()
}

/// What is wrong with a number, in the words that clients know.
fn number_problem(text: &str, why: &std::num::ParseIntError) -> String {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    let words =
        if matches!(why.kind(), PosOverflow | NegOverflow) { "value out of range" } else { "invalid syntax" };
    format!("strconv.Atoi: parsing {text:?}: {words}")
}
