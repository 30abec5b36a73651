//! Lists in pages, as every list of the Messages API is given out.
//! In comes the whole list and the query; out goes one page with its cursors, or a [`Refusal`].

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::refusal::Refusal;

/// The query of a list.
pub type Page = BTreeMap<String, String>;

/// The page of a list that a query asks for; what the list holds has ids.
pub fn page(mut list: Vec<Value>, query: &Page) -> Result<Value, Refusal> {
    let text = |name: &str| query.get(name).map(String::as_str);
    let limit = text("limit").map_or(Ok(20), str::parse::<usize>);
    let Ok(limit @ 1..=1000) = limit else {
        return Err(Refusal::invalid("limit: Input should be between 1 and 1000"));
    };
    let place = |id: &str| {
        let found = list.iter().position(|one| one["id"] == id);
        found.ok_or_else(|| Refusal::invalid(format!("nothing in this list has the id {id}")))
    };
    let end = text("before_id").map_or(Ok(list.len()), place)?;
    let start = text("after_id").map_or(Ok(0), |id| Ok(place(id)? + 1))?;
    list.truncate(end);
    list.drain(..start.min(end));
    let has_more = list.len() > limit;
    if text("before_id").is_some() {
        list.drain(..list.len().saturating_sub(limit));
    }
    list.truncate(limit);
    let id = |one: Option<&Value>| one.map(|one| one["id"].clone());
    Ok(json!({
        "first_id": id(list.first()), "last_id": id(list.last()),
        "data": list, "has_more": has_more,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(query: &[(&str, &str)]) -> (Vec<u64>, bool) {
        let list = (1..=5).map(|n| json!({"id": n.to_string(), "n": n})).collect();
        let query = query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let page = page(list, &query.collect()).unwrap();
        let numbers = page["data"].as_array().unwrap().iter();
        (numbers.map(|one| one["n"].as_u64().unwrap()).collect(), page["has_more"] == true)
    }

    #[test]
    fn a_page_is_what_stands_beside_its_cursor() {
        assert_eq!(ids(&[]), (vec![1, 2, 3, 4, 5], false));
        assert_eq!(ids(&[("limit", "2")]), (vec![1, 2], true));
        assert_eq!(ids(&[("limit", "2"), ("after_id", "2")]), (vec![3, 4], true));
        assert_eq!(ids(&[("limit", "2"), ("after_id", "4")]), (vec![5], false));
        assert_eq!(ids(&[("limit", "2"), ("before_id", "4")]), (vec![2, 3], true));
        assert_eq!(ids(&[("limit", "9"), ("before_id", "1")]), (vec![], false));
    }

    #[test]
    fn an_unknown_cursor_and_a_wrong_limit_are_refused() {
        for (name, value) in [("after_id", "9"), ("limit", "0"), ("limit", "1001"), ("limit", "x")]
        {
            let query = Page::from([(name.to_owned(), value.to_owned())]);
            assert_eq!(page(vec![json!({"id": "1"})], &query).unwrap_err().status(), 400);
        }
    }
}
