"""The words the benchmark corpus is made of: English, identifiers, Chinese, Japanese, Korean."""

from __future__ import annotations

COMMON = tuple(
    """the of and to in is that for it with as was on be at by this have from or had not are but
    what all were when we there can an your which their said if do will each about how up out them
    then she many some so these would other into has more her two like him see time could no make
    than first been its who now people my made over did down only way find use may water long
    little very after words called just where most know""".split()
)

STEMS = tuple(
    """account adapter agent align answer append archive argument array assert async attach audit
    backup balance batch benchmark binary block branch bridge buffer build bundle cache cancel
    capture channel check chunk client cluster collect column commit compare compile compress
    compute config connect consume contain context control convert copy corrupt count crash create
    cursor daemon debug declare decode default defer delete deliver deploy describe design detect
    device digest direct discover dispatch document domain drain driver edge emit encode endpoint
    engine entry error escape evaluate event examine exchange execute expand expect expire explain
    export expose extend extract fail fetch field filter final finish flag flush follow force fork
    format forward fragment frame function garbage gateway generate graph group guard handle hash
    header heap hook host import include index infer inherit inject insert inspect install
    instance interval invoke isolate iterate join journal kernel label launch layer lease ledger
    level library limit link list load local lock log loop manage map mark match measure member
    memory merge message metric migrate mirror model module monitor mount move network node
    normal notify number object observe offset open operate option order origin output own packet
    page panel parallel parse partition patch path pattern pause payload permit persist pipeline
    plan plugin point policy poll pool port post prefix prepare present print process produce
    profile program project promise protect provide proxy publish pull push query queue quote
    random range rank rate reach read rebase rebuild receive record recover reduce refactor
    refer reflect refuse register reject relate release reload remote remove render repair repeat
    replace replay replicate report request require reset resolve resource respond restore result
    resume retain retry return reuse review revert rewind rollback rotate route row run sample
    scale scan schedule schema scope score script search section secure segment select send
    serial serve session set shard share shift signal sign simulate skip sleep slice snapshot
    socket solve sort source spawn split stage start state statement step stop store stream
    string struct submit suffix summary supply support suspend swap switch symbol sync system
    table tail target task template tenant test text thread throttle ticket timeout title token
    tool topic trace track transaction transfer transform translate trigger trust tune tuple type
    unit update upgrade usage user vacuum validate value vary vector verify version view visit
    wait walk warn watch window worker wrap write yield zone""".split()
)

SUFFIXES = ("", "s", "ed", "ing", "er", "able", "ment", "less")
PREFIXES = ("", "", "", "re", "un", "pre", "sub", "auto")

#: Phrases that search engines trip over: punctuation, contractions, paths, addresses.
AWKWARD = (
    "don't",
    "it's 100% done",
    "what is a descriptor?",
    "error: timeout",
    "read, write",
    "see https://docs.example.org/guide",
    "mail ops@example.org",
    "the @property decorator",
    "os.path.join(a, b)",
    "C++ and C#",
    "the app-server",
    "base_events.py",
)

LATIN_IN_CJK = (
    "Kubernetes",
    "Python",
    "SQLite",
    "Docker",
    "GitHub",
    "Redis",
    "API",
    "JSON",
    "Linux",
    "PostgreSQL",
    "token",
    "WebSocket",
)

CHINESE = tuple(
    """
    我们 需要 使用 部署 服务 数据 数据库 会话 消息 搜索 系统 问题 代码 测试 文件
    配置 用户 错误 日志 性能 内存 线程 进程 网络 连接 超时 重试 事务 索引 查询 结果
    版本 更新 升级 备份 恢复 删除 插入 缓存 队列 模型 工具 调用 返回 参数 函数 接口
    请求 响应 状态 时间 今天 明天 已经 可以 如果 因为 所以 然后 检查 修复 运行 启动
    停止 安装 环境 变量 目录 路径 权限 安全 加密 密钥 语言 中文 文档 说明 项目 计划
    进展 桂林 山水 大别山 广西 城市 天气 旅行 价格 报告 分析 总结 建议 方案 设计
    架构 模块 组件 平台
    """.split()
)

JAPANESE = tuple(
    """
    データベース を 使って セッション の 記録 します 検索 できる ように 設定
    ファイル 更新 しました エラー が 発生 して います 確認 ください サーバー 接続
    テスト 実行 結果 は 問題 ありません 次に メッセージ 保存 する 必要 あります 性能
    改善 について 説明 会議 予定 明日 東京 天気 ユーザー から 質問 回答 コード 修正
    追加 削除 速度 メモリ 不足 時間 かかる ので 並列 処理 を 検討 中 です ありがとう
    ございます
    """.split()
)

KOREAN = tuple(
    """
    데이터베이스 세션 메시지 검색 서버 연결 오류 발생 확인 테스트 실행 결과 문제
    없습니다 설정 파일 수정 추가 삭제 사용자 질문 답변 코드 성능 개선 메모리 부족
    시간 처리 병렬 필요합니다 저장 복구 백업 버전 업데이트 완료 내일 서울 날씨 회의
    일정 보고서 분석 계획 진행 상황 알려주세요 감사합니다 그리고 하지만 때문에
    """.split()
)

#: Words that occur nowhere else, each planted in every n-th message of a corpus.
RARE_WORDS = {
    "quillfeather": 97,
    "zanthurium": 997,
    "oxbowlantern": 9973,
    "鯨落霧島": 1499,
}
