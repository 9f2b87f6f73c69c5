//! Messages with a JSON form that is not an object of their fields: times, quantities, raw JSON.

use muster_api::time::Time;
use muster_tree::Tree;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, ReflectMessage as _, Value};

use super::ProtoError;
use super::walk::Wire;

/// The tree of a message with a form of its own; `null` when it stands for absence, `None` for ordinary ones.
pub(super) fn read(wire: &Wire, message: &DynamicMessage) -> Result<Option<Tree>, ProtoError> {
    let descriptor = message.descriptor();
    let tree = match descriptor.full_name() {
        "k8s.io.apimachinery.pkg.apis.meta.v1.Time" => time(message, Time::to_seconds_text)?,
        "k8s.io.apimachinery.pkg.apis.meta.v1.MicroTime" => time(message, Time::to_micros_text)?,
        "k8s.io.apimachinery.pkg.apis.meta.v1.Duration" => Tree::from(duration(int(message, 1))),
        "k8s.io.apimachinery.pkg.api.resource.Quantity" => Tree::from(text(message, 1)),
        "k8s.io.apimachinery.pkg.util.intstr.IntOrString" => int_or_string(message),
        "k8s.io.apimachinery.pkg.apis.meta.v1.FieldsV1"
        | "k8s.io.apimachinery.pkg.runtime.RawExtension"
        | "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSON" => spliced(message)?,
        "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray"
        | "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray" => {
            either(wire, message, 1, 2, Tree::Null)?
        }
        "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool" => {
            either(wire, message, 2, 1, Tree::Bool(false))?
        }
        _ if is_named_list(&descriptor) => either(wire, message, 1, 1, Tree::empty_list())?,
        _ => return Ok(None),
    };
    Ok(Some(tree))
}

/// Whether a message is a list of texts that Go gave a name, wrapped because protobuf has no such thing.
pub(super) fn is_named_list(message: &MessageDescriptor) -> bool {
    let is_texts = |f: FieldDescriptor| f.name() == "items" && f.is_list() && f.kind() == Kind::String;
    let mut fields = message.fields();
    fields.next().is_some_and(is_texts) && fields.next().is_none()
}

/// The first of two fields that is there.
fn either(
    wire: &Wire,
    message: &DynamicMessage,
    first: u32,
    second: u32,
    otherwise: Tree,
) -> Result<Tree, ProtoError> {
    let found = [first, second].into_iter().find(|number| message.has_field_by_number(*number));
    match found.and_then(|number| message.get_field_by_number(number)) {
        Some(value) => wire.value(&value),
        None => Ok(otherwise),
    }
}

/// An instant as `write` puts it. A wholly empty one is none at all.
fn time(message: &DynamicMessage, write: fn(Time) -> String) -> Result<Tree, ProtoError> {
    if message.fields().next().is_none() {
        return Ok(Tree::Null);
    }
    let (seconds, nanos) = (int(message, 1), int(message, 2));
    let stamp = jiff::Timestamp::new(seconds, i32::try_from(nanos).unwrap_or(i32::MAX));
    let stamp =
        stamp.map_err(|e| ProtoError::Malformed(format!("{seconds} seconds and {nanos} nanos: {e}")))?;
    Ok(Tree::from(write(Time(stamp.as_microsecond()))))
}

fn int_or_string(message: &DynamicMessage) -> Tree {
    const STRING: i64 = 1;
    match int(message, 1) {
        STRING => Tree::from(text(message, 3)),
        _ => Tree::Int(int(message, 2)),
    }
}

/// JSON that travels as bytes.
fn spliced(message: &DynamicMessage) -> Result<Tree, ProtoError> {
    match message.get_field_by_number(1).as_deref() {
        Some(Value::Bytes(raw)) if !raw.is_empty() => {
            Tree::parse(raw).map_err(|e| ProtoError::Malformed(format!("embedded JSON: {e}")))
        }
        _ => Ok(Tree::Null),
    }
}

fn int(message: &DynamicMessage, number: u32) -> i64 {
    match message.get_field_by_number(number).as_deref() {
        Some(Value::I64(n)) => *n,
        Some(Value::I32(n)) => i64::from(*n),
        _ => 0,
    }
}

fn text(message: &DynamicMessage, number: u32) -> String {
    super::text_at(message, number)
}

/// A length of time as Go writes it: `1h0m0s`, `1.5s`, `100ms`.
fn duration(nanos: i64) -> String {
    const SECOND: u64 = 1_000_000_000;
    let sign = if nanos < 0 { "-" } else { "" };
    let all = nanos.unsigned_abs();
    let small = |unit: u64, word: &str| format!("{sign}{}{word}", fraction(all, unit));
    match all {
        0 => "0s".to_owned(),
        1..1_000 => small(1, "ns"),
        1_000..1_000_000 => small(1_000, "µs"),
        1_000_000..SECOND => small(1_000_000, "ms"),
        _ => {
            let (hours, minutes) = (all / (3_600 * SECOND), all / (60 * SECOND) % 60);
            let seconds = fraction(all % (60 * SECOND), SECOND);
            match (hours, minutes) {
                (0, 0) => format!("{sign}{seconds}s"),
                (0, _) => format!("{sign}{minutes}m{seconds}s"),
                _ => format!("{sign}{hours}h{minutes}m{seconds}s"),
            }
        }
    }
}

/// The nanoseconds of a length of time as Go writes it, the opposite of [`duration`].
pub(super) fn nanos(text: &str) -> Option<i64> {
    let (sign, mut rest) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    if rest == "0" {
        return Some(0);
    }
    let mut sum: i64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (word, tail) = tail.split_at(letters);
        sum = sum.checked_add(part(number, word)?)?;
        rest = tail;
    }
    (!text.is_empty()).then_some(sign * sum)
}

/// A decimal number of these units, in whole nanoseconds.
fn part(number: &str, word: &str) -> Option<i64> {
    let unit: i64 = match word {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && decimals.is_empty() {
        return None;
    }
    let mut sum = if whole.is_empty() { 0 } else { whole.parse::<i64>().ok()?.checked_mul(unit)? };
    let mut share = unit;
    for digit in decimals.chars() {
        share /= 10;
        sum = sum.checked_add(share * i64::from(digit.to_digit(10)?))?;
    }
    Some(sum)
}

/// `all / unit` with as many decimals as it takes and no more.
fn fraction(all: u64, unit: u64) -> String {
    let width = unit.ilog10() as usize;
    let text = format!("{}.{:0width$}", all / unit, all % unit);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::{duration, nanos as read};

    #[test]
    fn lengths_of_time_are_written_as_go_does() {
        for (nanos, want) in [
            (0, "0s"),
            (1, "1ns"),
            (1_500, "1.5µs"),
            (100_000_000, "100ms"),
            (1_000_000_000, "1s"),
            (1_500_000_000, "1.5s"),
            (90_000_000_000, "1m30s"),
            (3_600_000_000_000, "1h0m0s"),
            (-3_661_000_000_000, "-1h1m1s"),
            (600_000_000_000, "10m0s"),
        ] {
            assert_eq!(duration(nanos), want);
            assert_eq!(read(want), Some(nanos), "{want}");
        }
        for wrong in ["", "1", "1x", "h", "1h1"] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
    }
}
