//! The texts of notices in Brazilian Portuguese.
//!
//! They say the same as the English ones, in the same places, as one writes to somebody on a phone (você).
//! Amounts have a comma, and dates their day first.

use super::{Left, Words};
use crate::domain::job::Reason;

pub(super) const WORDS: Words = Words {
    tag: "pt-BR",
    asked: "Precisamos da sua decisão",
    reminded: "Lembrete: ainda precisamos da sua decisão",
    escalated: "Precisamos da sua decisão: outras pessoas ainda não decidiram",
    completed: "Sua tarefa foi concluída",
    failed: "Sua tarefa falhou",
    cancelled: "Sua tarefa foi cancelada",
    out_of_budget: "Sua tarefa está pausada: o orçamento acabou",
    draft: "Rascunho:",
    draft_begins: "Começo do rascunho:",
    result: "Resultado:",
    result_begins: "Começo do resultado:",
    how: "Cada link abre uma página; nada é decidido até você confirmar lá.",
    how_link: "O botão abre uma página; nada é decidido até você confirmar lá.",
    how_buttons: "Um botão decide na hora, e rejeitar encerra a tarefa. Para ver tudo antes:",
    open_title: "Ver o pedido",
    approve_title: "Aprovar",
    reject_title: "Rejeitar",
    approve: "Aprovar: ",
    reject: "Rejeitar: ",
    error: "Erro: ",
    step: |step, count| format!("Etapa {step} de {count}"),
    deadline: |at, left| format!("Por favor, decida até {at}{left}."),
    left,
    no_deadline: "nenhum",
    why_failed,
    why_cancelled,
    why_paused: "O que resta do orçamento não cobre a próxima etapa. A tarefa continua quando alguém a retomar com um orçamento maior.",
    day_used_up: "O orçamento do dia acabou",
    why_put_off,
    cost: |usd| format!("Custo: US$ {}", with_comma(usd)),
    cost_is_tiny: "Custo: menos de US$ 0,0001",
};

fn with_comma(usd: &str) -> String {
    usd.replace('.', ",")
}

fn left(left: Left) -> String {
    match left {
        Left::Days(days) => format!(", faltam {days} dias"),
        Left::Hours(hours) => format!(", faltam {hours} horas"),
        Left::Minutes(1) => ", falta 1 minuto".to_owned(),
        Left::Minutes(minutes) => format!(", faltam {minutes} minutos"),
        Left::Moments => ", falta menos de um minuto".to_owned(),
    }
}

fn why_put_off(budget_usd: Option<&str>) -> String {
    let of = budget_usd.map(|usd| format!(" de US$ {}", with_comma(usd))).unwrap_or_default();
    format!(
        "O que resta do orçamento{of} para este dia não cobre a próxima chamada ao modelo de IA. \
         As tarefas que precisam de uma esperam até 00:00 UTC e depois continuam sozinhas. \
         Elas continuam antes se chamadas em andamento custarem menos do que o reservado, ou se os servidores forem iniciados com um orçamento maior."
    )
}

fn why_failed(reason: Option<Reason>) -> &'static str {
    match reason {
        Some(Reason::ApprovalExpired) => "Ninguém decidiu dentro do prazo.",
        Some(Reason::RecoveriesExhausted) => "O servidor caiu vezes demais durante esta etapa.",
        Some(Reason::RetryWindowExhausted) => {
            "O serviço de IA ficou indisponível por tempo demais."
        }
        Some(Reason::ProviderRejected) => "O serviço de IA recusou a solicitação.",
        Some(Reason::ProviderUnconfigured) => "O servidor não tem uma chave para o serviço de IA.",
        Some(Reason::ModelRefused) => "O modelo de IA se recusou a responder.",
        Some(Reason::ModelTruncated) => "A resposta passou do tamanho permitido.",
        Some(Reason::ContextOverflow) => "A conversa ficou longa demais para o modelo de IA.",
        Some(Reason::ModelStopped) => "O modelo de IA parou antes de terminar.",
        Some(Reason::StepPanicked) => "O servidor teve uma falha durante esta etapa.",
        Some(Reason::ModelUnpriced) => {
            "Há um limite de gastos, e o preço do modelo de IA não é conhecido."
        }
        Some(
            Reason::SpendLimit
            | Reason::Batch
            | Reason::Budget
            | Reason::DailyBudget
            | Reason::Scheduled
            | Reason::Waiting
            | Reason::ProviderUnavailable
            | Reason::AttemptLost
            | Reason::Rejected,
        )
        | None => "Não foi possível concluir esta etapa.",
    }
}

fn why_cancelled(reason: Option<Reason>) -> &'static str {
    match reason {
        Some(Reason::Rejected) => "Ela foi rejeitada nesta etapa.",
        Some(Reason::ApprovalExpired) => {
            "Ninguém decidiu dentro do prazo, o que aqui conta como rejeição."
        }
        Some(
            Reason::Scheduled
            | Reason::Waiting
            | Reason::ProviderUnavailable
            | Reason::AttemptLost
            | Reason::RecoveriesExhausted
            | Reason::RetryWindowExhausted
            | Reason::ProviderRejected
            | Reason::ProviderUnconfigured
            | Reason::ModelRefused
            | Reason::ModelTruncated
            | Reason::ContextOverflow
            | Reason::ModelStopped
            | Reason::StepPanicked
            | Reason::ModelUnpriced
            | Reason::SpendLimit
            | Reason::Batch
            | Reason::Budget
            | Reason::DailyBudget,
        )
        | None => "Ela foi interrompida a pedido.",
    }
}
