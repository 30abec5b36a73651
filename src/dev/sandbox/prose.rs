//! The words of the sandbox's model, in English and Chinese.
//! In comes the text of a prompt; out go its matter, sentences about it, and pages "found" on it.
//! Everything is a function of the prompt and the turn: no chance, no clock.
//! A length asked for in the prompt ("80字以内", "under 50 words", "at least 500 words") is kept.

/// What a prompt is about, as far as a string function can tell.
pub struct Topic {
    /// The phrase that names the matter.
    pub matter: String,
    is_chinese: bool,
    is_budget_app: bool,
    limit: Option<usize>,
    least: usize,
    seed: usize,
}

/// A length that a prompt asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Length {
    Most(usize),
    Least(usize),
}

/// A page that a search found.
pub struct Finding {
    /// The page's path.
    pub slug: &'static str,
    /// The page's title.
    pub title: String,
    /// What the answer says from it.
    pub sentence: String,
}

impl Topic {
    /// The topic of a prompt.
    pub fn of(prompt: &str) -> Self {
        let is_chinese = prompt.chars().any(is_wide);
        let has = |words: &[&str]| words.iter().any(|word| prompt.contains(word));
        let (limit, least) = match length(prompt, is_chinese) {
            Some(Length::Most(most)) => (Some(most), 0),
            Some(Length::Least(least)) => (None, least),
            None => (None, 0),
        };
        Self {
            matter: if is_chinese { chinese_matter(prompt) } else { english_matter(prompt) },
            is_chinese,
            is_budget_app: has(&["记账", "预算"]) && has(&["简介", "介绍", "文案", "描述"]),
            limit,
            least,
            seed: prompt.bytes().fold(7, |sum, byte| (sum * 31 + usize::from(byte)) % 1_000_003),
        }
    }

    /// The topic of a later prompt: a short remark on a blurb asks for another blurb.
    pub fn after(first_prompt: &str, prompt: &str) -> Self {
        let (first, mut topic) = (Self::of(first_prompt), Self::of(prompt));
        if first.is_budget_app && topic.is_chinese && prompt.chars().count() <= 120 {
            topic.is_budget_app = true;
            topic.limit = topic.limit.or(first.limit);
        }
        topic
    }

    /// A small number that belongs to the topic.
    pub fn number(&self) -> usize {
        self.seed % 9 + 1
    }

    fn len(&self, text: &str) -> usize {
        if self.is_chinese { text.chars().count() } else { text.split_whitespace().count() }
    }
}

/// The answer to a prompt on this topic that came after `turn` earlier answers.
pub fn write(topic: &Topic, turn: usize) -> String {
    let Topic { matter, is_chinese, .. } = topic;
    let (openers, points) =
        if *is_chinese { (ZH_OPENERS, ZH_POINTS) } else { (EN_OPENERS, EN_POINTS) };
    let choice = topic.seed + turn;
    let sentences: Vec<String> = if topic.is_budget_app {
        BUDGET_APP[turn % BUDGET_APP.len()].split_inclusive('。').map(str::to_owned).collect()
    } else {
        let opener = openers[choice % openers.len()].replace("{}", matter);
        let first = choice % points.len();
        let points = points.iter().cycle().skip(first).map(|&point| point.to_owned());
        at_least(topic, std::iter::once(opener).chain(points))
    };
    // The texts repeat after a few turns; the number of the draft still tells them apart.
    let rounds = if topic.is_budget_app { BUDGET_APP.len() } else { openers.len() };
    let mark = match (turn < rounds, is_chinese) {
        (true, _) => String::new(),
        (false, true) => format!("第{}稿：", turn + 1),
        (false, false) => format!("Draft {}: ", turn + 1),
    };
    fit(topic, &mark, &sentences)
}

/// Five of the sentences, or as many more as the length asked for takes.
fn at_least(topic: &Topic, sentences: impl Iterator<Item = String>) -> Vec<String> {
    let (mut taken, mut len) = (Vec::new(), 0);
    for sentence in sentences {
        if taken.len() >= 5 && len >= topic.least {
            break;
        }
        len += topic.len(&sentence);
        taken.push(sentence);
    }
    taken
}

/// As many whole sentences as the length asked for allows; at least a piece of the first.
fn fit(topic: &Topic, mark: &str, sentences: &[String]) -> String {
    let gap = if topic.is_chinese { "" } else { " " };
    let mut text = mark.to_owned();
    for (n, sentence) in sentences.iter().enumerate() {
        let longer =
            if n == 0 { format!("{text}{sentence}") } else { format!("{text}{gap}{sentence}") };
        match topic.limit {
            Some(limit) if topic.len(&longer) > limit && n > 0 => return text,
            Some(limit) if topic.len(&longer) > limit => {
                return if topic.is_chinese {
                    longer.chars().take(limit).collect()
                } else {
                    longer.split_whitespace().take(limit).collect::<Vec<_>>().join(" ")
                };
            }
            _ => text = longer,
        }
    }
    text
}

/// The two pages a search on this topic finds.
pub fn findings(topic: &Topic) -> [Finding; 2] {
    let matter = &topic.matter;
    if topic.is_chinese {
        [
            Finding {
                slug: "guide",
                title: format!("{matter}：实用指南"),
                sentence: format!("资料显示，谈到“{matter}”，多数人最看重简单和可靠。"),
            },
            Finding {
                slug: "report-2026",
                title: format!("{matter}：2026年调查"),
                sentence: "另一份2026年的调查提到，隐私和易用是最常见的选择理由。".to_owned(),
            },
        ]
    } else {
        [
            Finding {
                slug: "guide",
                title: format!("A practical guide: {matter}"),
                sentence: format!("A practical guide on {matter} puts simplicity first. "),
            },
            Finding {
                slug: "report-2026",
                title: format!("The 2026 report: {matter}"),
                sentence: "A 2026 report names cost and trust as the usual deciding factors. "
                    .to_owned(),
            },
        ]
    }
}

/// What is thought before an answer.
pub fn thought(topic: &Topic) -> String {
    let matter = &topic.matter;
    if topic.is_chinese {
        format!("用户想了解“{matter}”。先想清楚最要紧的一点，再写得简短。")
    } else {
        format!("They want to know about {matter}. First what matters most, then keep it short.")
    }
}

/// Whether a letter is Chinese, Japanese, Korean, or their punctuation.
pub fn is_wide(letter: char) -> bool {
    matches!(letter, '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}'
        | '\u{ff00}'..='\u{ffef}' | '\u{20000}'..='\u{3ffff}')
}

/// What stands in quotes; else the end of the first clause, behind its last "的".
fn chinese_matter(prompt: &str) -> String {
    let quoted = [('《', '》'), ('「', '」'), ('“', '”')].iter().find_map(|(open, close)| {
        let (_, rest) = prompt.split_once(*open)?;
        let (inside, _) = rest.split_once(*close)?;
        (!inside.trim().is_empty()).then(|| inside.trim())
    });
    let ends = |letter: char| "。，！？；：\n,.!?;:".contains(letter);
    let clause = prompt.split(ends).map(str::trim).find(|clause| clause.chars().any(is_wide));
    let clause = clause.unwrap_or("这件事");
    let named = clause.rsplit_once('的').map(|(_, end)| end);
    let named = named.filter(|end| end.chars().count() > 1).unwrap_or_else(|| {
        ["请", "帮我", "用中文", "写一段", "写一篇", "写一个", "写", "把", "为", "给"]
            .iter()
            .fold(clause, |text, word| text.strip_prefix(word).unwrap_or(text))
    });
    quoted.unwrap_or(named).chars().take(24).collect()
}

/// The first clause that is more than an order, without the order, up to nine words.
fn english_matter(prompt: &str) -> String {
    const ORDERS: [&str; 24] = [
        "please",
        "can",
        "could",
        "you",
        "write",
        "draft",
        "give",
        "me",
        "make",
        "create",
        "plan",
        "summarise",
        "summarize",
        "explain",
        "describe",
        "list",
        "say",
        "tell",
        "find",
        "research",
        "a",
        "an",
        "the",
        "some",
    ];
    let matter = |clause: &str| {
        let words = clause.split_whitespace();
        let words = words.skip_while(|word| ORDERS.contains(&word.to_lowercase().as_str()));
        words.take(9).collect::<Vec<_>>().join(" ")
    };
    let clauses = prompt.split(|letter: char| ".,!?;:\n".contains(letter));
    clauses.map(matter).find(|matter| !matter.is_empty()).unwrap_or_else(|| "this".to_owned())
}

/// The length asked for: the number before "字", or before "words"; a least one behind "至少" or "at least".
fn length(prompt: &str, is_chinese: bool) -> Option<Length> {
    let (unit, least) = if is_chinese { ("字", "至少") } else { (" word", "at least ") };
    let number = |text: &str| {
        let before = text.trim_end_matches(|letter: char| letter.is_ascii_digit());
        let number = text[before.len()..].parse().ok().filter(|&number| number > 0)?;
        let is_least = before.to_lowercase().ends_with(least);
        Some(if is_least { Length::Least(number) } else { Length::Most(number) })
    };
    prompt.match_indices(unit).find_map(|(at, _)| number(&prompt[..at]))
}

const BUDGET_APP: &[&str] = &[
    "打开即记，三秒一笔。收支自动归类，月底一张报表看清钱花在哪；预算快超支时提前提醒。数据加密保存，随时导出，让每一分钱都有数。",
    "一款踏实好用的记账App：支持手记与账单导入，分类清楚，预算进度一目了然。没有广告和多余功能，账目可随时导出，帮你把日子过得心中有数。",
    "记账不必麻烦：随手记一笔，App自动分类汇总。设好每月预算，超支先提醒；家人可共用一本账。数据只属于你，想导出就导出。",
];
const ZH_OPENERS: &[&str] = &[
    "关于“{}”，先说结论：从最常见的需求做起，简单可靠最重要。",
    "围绕“{}”，下面是一份可以直接用的初稿。",
    "“{}”的要点整理如下，语气平实，方便修改。",
    "再来看“{}”：换一个角度，把读者最关心的放在前面。",
];
const ZH_POINTS: &[&str] = &[
    "第一步把目标写清楚，并约定由谁负责、何时完成。",
    "时间上留出复查的余地，重要的数字请两个人核对。",
    "费用按最坏的情况估算，超出部分先征得同意。",
    "过程中的决定都记录下来，以后有据可查。",
    "完成后用一两个数字衡量效果，再决定是否继续投入。",
    "遇到问题尽早说明，小步调整比推倒重来更省力。",
];
const EN_OPENERS: &[&str] = &[
    "Here is a first take on {}.",
    "On {}: the short version is to start small and keep it dependable.",
    "Below is a working draft about {}, kept plain so that it is easy to change.",
    "Looking again at {}, this version puts first what the reader cares about most.",
];
const EN_POINTS: &[&str] = &[
    "Begin by writing down the goal, who owns it, and when it is due.",
    "Leave room for a second look, and have two people check the numbers that matter.",
    "Plan the cost for the worst case, and ask before going beyond it.",
    "Note each decision as it is made, so that nobody has to guess later.",
    "When it is done, measure one or two results before putting in more.",
    "Raise problems early: a small correction is cheaper than starting over.",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budgeting_app_gets_a_blurb_of_at_most_eighty_characters_in_every_turn() {
        let topic = Topic::of("用中文写一段80字以内的记账App产品简介，风格务实。");
        assert_eq!(topic.matter, "记账App产品简介");
        let texts: Vec<String> = (0..7).map(|turn| write(&topic, turn)).collect();
        for (n, text) in texts.iter().enumerate() {
            assert!(text.chars().count() <= 80 && text.ends_with('。'), "{text}");
            assert!(!texts[..n].contains(text), "{text}");
        }
    }

    #[test]
    fn a_remark_on_a_blurb_gets_another_blurb_of_the_same_length() {
        let first = "用中文写一段80字以内的记账App产品简介，风格务实。";
        let again = write(&Topic::after(first, "再口语一点"), 1);
        assert_eq!(again, write(&Topic::of(first), 1));
    }

    #[test]
    fn a_length_asked_for_is_kept() {
        let topic = Topic::of("Write a slogan for a bakery in under 8 words");
        assert_eq!(topic.matter, "slogan for a bakery in under 8 words");
        assert!(write(&topic, 0).split_whitespace().count() <= 8);
        let topic = Topic::of("把上面的内容压缩到20字以内");
        assert!(write(&topic, 1).chars().count() <= 20);
    }

    #[test]
    fn a_least_length_is_kept_too_and_nothing_else_makes_an_answer_longer() {
        let len = |prompt: &str| {
            let topic = Topic::of(prompt);
            topic.len(&write(&topic, 0))
        };
        let usual = len("Write a story.");
        let long = len("Write a story of at least 700 words.");
        assert!((700..730).contains(&long), "{long}");
        assert!(len("At least 3 words, please.") < 2 * usual);
        let long = len("写一个至少500字的故事");
        assert!((500..560).contains(&long), "{long}");
    }
}
