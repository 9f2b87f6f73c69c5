//! Validation of IP addresses, CIDRs and host names.

use std::net::{IpAddr, Ipv4Addr};

use muster_schema::error::FieldError;
use muster_schema::names;

use super::FieldErrors;
use super::field_path::FieldPath;

const NO_ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const NO_RANGE: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
const NO_WILDCARD: &str = r"a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// Parses an address; leading zeros in IPv4 octets are accepted, since older clients write them.
pub(super) fn sloppy(text: &str) -> Option<IpAddr> {
    text.parse().ok().or_else(|| {
        let parts: Vec<&str> = text.split('.').collect();
        let number = |part: &&str| {
            let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
            if digits { part.parse::<u8>().ok() } else { None }
        };
        let numbers: Option<Vec<u8>> = parts.iter().map(number).collect();
        let numbers: [u8; 4] = numbers?.try_into().ok()?;
        Some(IpAddr::V4(Ipv4Addr::from(numbers)))
    })
}

/// Validates an address, canonical or not.
pub(super) fn address(text: &str, at: &FieldPath<'_>, errors: &mut FieldErrors) -> Option<IpAddr> {
    let before = errors.len();
    let Some(ip) = sloppy(text) else {
        errors.push(FieldError::invalid(at, text, NO_ADDRESS));
        return None;
    };
    if text.parse::<IpAddr>().is_err() {
        errors.push(FieldError::invalid(at, text, "must not have leading 0s"));
    }
    if matches!(text.parse(), Ok(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_some()) {
        errors.push(FieldError::invalid(at, text, "must not be an IPv4-mapped IPv6 address"));
    }
    (errors.len() == before).then_some(ip)
}

/// Validates an address that must be canonical.
pub(super) fn canonical_address(text: &str, at: &FieldPath<'_>, errors: &mut FieldErrors) -> Option<IpAddr> {
    let ip = address(text, at, errors)?;
    let form = ip.to_string();
    if form == text {
        return Some(ip);
    }
    errors.push(FieldError::invalid(at, text, format!("must be in canonical form ({form:?})")));
    None
}

/// A CIDR: first address and prefix length.
#[derive(Clone, Copy)]
pub(super) struct Range {
    first: u128,
    prefix: u8,
    bits: u8,
}

impl Range {
    fn of(text: &str) -> Option<(IpAddr, Range)> {
        let (ip, prefix) = text.split_once('/')?;
        let ip = sloppy(ip)?;
        let digits = !prefix.is_empty() && prefix.bytes().all(|b| b.is_ascii_digit());
        let prefix: u8 = if digits { prefix.parse().ok()? } else { return None };
        let (value, bits) = match ip {
            IpAddr::V4(ip) => (u128::from(u32::from(ip)), 32),
            IpAddr::V6(ip) => (u128::from(ip), 128),
        };
        (prefix <= bits).then(|| {
            let host = u32::from(bits - prefix);
            let first = if host == 128 { 0 } else { value >> host << host };
            (ip, Range { first, prefix, bits })
        })
    }

    /// Whether the other CIDR is a proper subset.
    pub(super) fn has(self, other: Range) -> bool {
        let host = u32::from(self.bits - self.prefix);
        let same = host == 128 || other.first >> host == self.first >> host;
        self.bits == other.bits && self.prefix < other.prefix && same
    }
}

pub(super) fn range(text: &str, at: &FieldPath<'_>, errors: &mut FieldErrors) -> Option<Range> {
    let Some((ip, range)) = Range::of(text) else {
        errors.push(FieldError::invalid(at, text, NO_RANGE));
        return None;
    };
    let (address, prefix) = text.split_once('/').unwrap_or_default();
    let value = match ip {
        IpAddr::V4(ip) => u128::from(u32::from(ip)),
        IpAddr::V6(ip) => u128::from(ip),
    };
    let zeros = prefix.len() > 1 && prefix.starts_with('0');
    let why = if address.parse::<IpAddr>().is_err() || zeros {
        "must not have leading 0s in IP or prefix length"
    } else if matches!(ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some()) {
        "must not have an IPv4-mapped IPv6 address"
    } else if value != range.first {
        "must not have bits set beyond the prefix length"
    } else {
        return Some(range);
    };
    errors.push(FieldError::invalid(at, text, why));
    Some(range)
}

/// Validates a DNS name with an optional wildcard.
pub(super) fn host(name: &str, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    if !name.contains('*') {
        at.problems(name, names::subdomain(name), errors);
        return;
    }
    if name.len() > names::SUBDOMAIN_MAX {
        errors.push(FieldError::invalid(at, name, "must be no more than 253 characters"));
    }
    if !name.strip_prefix("*.").is_some_and(|rest| names::subdomain(rest).is_empty()) {
        errors.push(FieldError::invalid(at, name, NO_WILDCARD));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn details<T>(check: impl Fn(&FieldPath<'_>, &mut FieldErrors) -> T) -> Vec<String> {
        let mut errors = FieldErrors::new();
        check(&FieldPath::Root("x"), &mut errors);
        errors.into_iter().map(|error| error.detail).collect()
    }

    #[test]
    fn addresses_have_one_form() {
        for (text, want) in [
            ("10.0.0.1", vec![]),
            ("2001:db8::1", vec![]),
            ("010.0.0.1", vec!["must not have leading 0s"]),
            ("::ffff:1.2.3.4", vec!["must not be an IPv4-mapped IPv6 address"]),
            ("2001:DB8::1", vec!["must be in canonical form (\"2001:db8::1\")"]),
            ("10.0.0", vec![NO_ADDRESS]),
            ("host", vec![NO_ADDRESS]),
        ] {
            assert_eq!(details(|at, errors| canonical_address(text, at, errors)), want, "{text}");
        }
    }

    #[test]
    fn ranges_begin_at_their_first_address() {
        for (text, want) in [
            ("10.0.0.0/8", vec![]),
            ("::/0", vec![]),
            ("10.0.0.1/8", vec!["must not have bits set beyond the prefix length"]),
            ("10.0.0.0/33", vec![NO_RANGE]),
            ("10.0.0.0", vec![NO_RANGE]),
            ("10.0.0.0/08", vec!["must not have leading 0s in IP or prefix length"]),
        ] {
            assert_eq!(details(|at, errors| range(text, at, errors)), want, "{text}");
        }
        let of = |text: &str| Range::of(text).unwrap().1;
        assert!(of("10.0.0.0/8").has(of("10.1.0.0/16")));
        assert!(!of("10.0.0.0/8").has(of("10.0.0.0/8")), "a strict part");
        assert!(!of("10.0.0.0/8").has(of("11.0.0.0/16")));
        assert!(!of("0.0.0.0/0").has(of("::/64")), "another family");
    }
}
