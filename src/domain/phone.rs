//! Phone numbers that are one phone: in some countries a number is written in two ways, and `WhatsApp` tells the other one.
//!
//! In comes a number as somebody wrote it, out come all numbers under which the same phone may be known.
//! They serve to recognise a person and nothing else: what is stored or dialled stays as it was given.

use super::book::is_phone;

/// In front of a Mexican mobile number, once.
const MOBILE_MX: &str = "1";
/// In front of an Argentine mobile number, from abroad; at home it is 15, after the area code.
const MOBILE_AR: &str = "9";
const MOBILE_AT_HOME_AR: &str = "15";

/// The number in E.164, if it is one; `WhatsApp` leaves the plus out, and people write blanks.
pub fn find_number(text: &str) -> Option<String> {
    let digits = text.trim().trim_start_matches('+');
    let digits: String = digits.chars().filter(|c| !matches!(c, ' ' | '-' | '(' | ')')).collect();
    let number = format!("+{digits}");
    is_phone(&number).then_some(number)
}

/// Every number under which the phone of this one may be known, the given one first.
pub fn variants(number: &str) -> Vec<String> {
    let others = if let Some(rest) = number.strip_prefix("+55") {
        brazilian(rest).map(|rest| format!("+55{rest}")).into_iter().collect()
    } else if let Some(rest) = number.strip_prefix("+52") {
        mexican(rest).map(|rest| format!("+52{rest}")).into_iter().collect()
    } else if let Some(rest) = number.strip_prefix("+54") {
        argentine(rest).into_iter().map(|rest| format!("+54{rest}")).collect()
    } else {
        Vec::new()
    };
    let mut all = vec![number.to_owned()];
    all.extend(others.into_iter().filter(|other| other != number));
    all
}

/// Two digits of the area, then eight or nine; the ninth was put before all mobile numbers, which begin with 6 to 9.
fn brazilian(rest: &str) -> Option<String> {
    let (area, local) = rest.split_at_checked(2)?;
    let is_mobile = |eight: &str| eight.starts_with(['6', '7', '8', '9']);
    match (local.len(), local.strip_prefix('9')) {
        (9, Some(eight)) if is_mobile(eight) => Some(format!("{area}{eight}")),
        (8, _) if is_mobile(local) => Some(format!("{area}9{local}")),
        _ => None,
    }
}

/// Ten digits, of which none begins with the 1 that stood before mobile numbers.
fn mexican(rest: &str) -> Option<String> {
    match (rest.len(), rest.strip_prefix(MOBILE_MX)) {
        (11, Some(ten)) => Some(ten.to_owned()),
        (10, None) => Some(format!("{MOBILE_MX}{rest}")),
        _ => None,
    }
}

/// Ten digits of area and number, with a 9 before them, a 15 between them, or neither.
fn argentine(rest: &str) -> Vec<String> {
    let at_home = |ten: &str| {
        // Buenos Aires has two digits, the other areas three or four.
        let areas: &[usize] = if ten.starts_with("11") { &[2] } else { &[3, 4] };
        let split = areas.iter().map(|&area| ten.split_at(area));
        split.map(|(area, local)| format!("{area}{MOBILE_AT_HOME_AR}{local}")).collect::<Vec<_>>()
    };
    let ten = match (rest.len(), rest.strip_prefix(MOBILE_AR)) {
        (11, Some(ten)) => Some(ten.to_owned()),
        (10, _) => Some(rest.to_owned()),
        (12, _) => {
            let areas: &[usize] = if rest.starts_with("11") { &[2] } else { &[3, 4] };
            areas.iter().find_map(|&area| {
                let (area, local) = rest.split_at(area);
                local.strip_prefix(MOBILE_AT_HOME_AR).map(|local| format!("{area}{local}"))
            })
        }
        _ => None,
    };
    ten.map_or_else(Vec::new, |ten| {
        let mut all = vec![format!("{MOBILE_AR}{ten}"), ten.clone()];
        all.extend(at_home(&ten));
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_however_it_is_written() {
        for text in ["+16505551234", "16505551234", " +1 (650) 555-1234 "] {
            assert_eq!(find_number(text).as_deref(), Some("+16505551234"), "{text}");
        }
        for text in ["", "+", "US.13491208655302741918", "0123456789", "１６５０５５５１２３４"]
        {
            assert_eq!(find_number(text), None, "{text}");
        }
    }

    #[test]
    fn each_way_to_write_a_phone_knows_all_others() {
        for known in [
            &["+5511987654321", "+551187654321"][..],
            &["+5215512345678", "+525512345678"],
            &["+5491123456789", "+541123456789", "+54111523456789"],
            // The area has three digits or four; a number tells only where it holds the 15.
            &["+5493511234567", "+543511234567", "+54351151234567", "+54351115234567"],
        ] {
            for one in known {
                let mut found = variants(one);
                assert_eq!(found[0], *one);
                found.sort();
                let mut expected = known.to_vec();
                expected.sort_unstable();
                assert_eq!(found, expected, "{one}");
            }
        }
    }

    #[test]
    fn other_numbers_are_only_themselves() {
        for number in [
            "+15550100",
            "+16505551234",
            // A landline of São Paulo, and a mobile number that a landline would be without its 9.
            "+551132345678",
            "+5511932345678",
            "+5511",
            "+55",
            "+521234",
            "+54",
            "+5411",
            "+541112345678901",
            "+8613800138000",
        ] {
            assert_eq!(variants(number), [number], "{number}");
        }
    }
}
