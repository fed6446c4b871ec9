//! SQL about Parquet as SQL about Fermion.

/// Options of the two writers and readers that mean the same. Those without a counterpart are dropped where they would be refused.
const OPTIONS: &[(&str, &str)] = &[
    ("max_row_group_size", "stripe_rows"),
    ("data_page_row_count_limit", "page_rows"),
    ("data_pagesize_limit", "page_bytes"),
    ("pruning", "pruning"),
    ("max_in_list_size", "max_in_list_size"),
    ("metadata_size_hint", "metadata_size_hint"),
    ("schema_force_view_types", "force_view_types"),
];

/// The same statement with Fermion as its format, or as it is if it does not speak of Parquet.
pub(crate) fn rewrite(sql: &str) -> String {
    let mut sql = replace_word(sql, "STORED AS PARQUET", "STORED AS FERMION");
    for end in ["'", "/", "\"", "*", "%"] {
        sql = sql.replace(&format!(".parquet{end}"), &format!(".fermion{end}"));
    }
    for (parquet, fermion) in OPTIONS {
        sql = replace_word(&sql, &format!("datafusion.execution.parquet.{parquet} "), &format!("fermion.{fermion} "));
        sql = replace_word(&sql, &format!("datafusion.execution.parquet.{parquet}="), &format!("fermion.{fermion}="));
    }
    if sql.contains("STORED AS FERMION") || sql.contains(".fermion'") { rewrite_options(&sql) } else { sql }
}

/// Replaces a phrase however it is capitalised.
fn replace_word(text: &str, from: &str, to: &str) -> String {
    let (lower, from) = (text.to_ascii_lowercase(), from.to_ascii_lowercase());
    let mut replaced = String::new();
    let mut end = 0;
    for (start, _) in lower.match_indices(&from) {
        replaced.push_str(text.get(end..start).unwrap_or_default());
        replaced.push_str(to);
        end = start.saturating_add(from.len());
    }
    replaced.push_str(text.get(end..).unwrap_or_default());
    replaced
}

/// Translates the writer's options in `OPTIONS (...)`.
fn rewrite_options(sql: &str) -> String {
    let lower = sql.to_ascii_lowercase();
    let Some(start) = lower.rfind("options") else {
        return sql.to_owned();
    };
    let (head, tail) = sql.split_at(start);
    let Some((before, rest)) = tail.split_once('(') else {
        return sql.to_owned();
    };
    let Some((list, after)) = rest.rsplit_once(')') else {
        return sql.to_owned();
    };
    if !before.trim().eq_ignore_ascii_case("options") {
        return sql.to_owned();
    }
    let kept: Vec<String> = list.split(',').filter_map(|option| rewrite_option(option.trim())).collect();
    if kept.is_empty() { format!("{head}{after}") } else { format!("{head}OPTIONS ({}){after}", kept.join(", ")) }
}

fn rewrite_option(option: &str) -> Option<String> {
    let (key, value) = option.split_once(char::is_whitespace)?;
    let key = key.trim_matches(['\'', '"']);
    let plain = key.to_ascii_lowercase().trim_start_matches("format.").to_owned();
    if key.contains('.') && !key.to_ascii_lowercase().starts_with("format.") {
        return Some(option.to_owned());
    }
    let (_, fermion) = OPTIONS.iter().find(|(parquet, _)| *parquet == plain)?;
    Some(format!("'fermion.{fermion}' {value}"))
}

/// What an answer over Fermion files says in the words of one over Parquet files.
pub(crate) fn restore(text: &str) -> String {
    text.replace("fermion", "parquet").replace("FERMION", "PARQUET")
}
