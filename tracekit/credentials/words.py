"""Words of keys, values and sentences around credentials, as data."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ALWAYS = _words(
    """
    secret secrets password passwords passwd passwds passphrase passcode passkey sshpass authorization
    authorisation cookie cookies credential credentials
    """
)
"""Last words of a key that always has a credential."""

KEY_KINDS = _words(
    """
    api access private secret auth signing encryption account ssh subscription deploy master admin storage
    webhook hmac jwt license openai anthropic azure stripe sendgrid twilio datadog wandb ngc nvidia hf mistral
    cohere pinecone
    """
)
"""Words before "key" in the name of a credential."""

NO_TOKEN = _words(
    """
    pad eos bos unk sep mask cls special begin start end stop image audio video next previous prev first last
    num per new current cur prompt output input each every one word max min n total
    """
)
"""Words before "token" in the language of models, where a token is a piece of text."""

NO_PASS = _words(
    """
    forward backward fwd bwd render shadow first second third last next prev previous single two multi one each
    per this that opt optimization optimizer compiler fusion lowering graph mlir llvm xla geometry depth color
    lighting post pre sub base by low high band reduce update split final num n
    """
)
"""Words before "pass" where it is a part of a program."""

PASS_OWNERS = _words(
    """
    db database smtp imap pop mail email user admin root my mysql pg postgres postgresql redis mongo mongodb
    rabbitmq amqp ldap ftp sftp ssh svn git http https proxy basic auth login account app api registry docker
    nexus artifactory jenkins wifi vpn key keystore truststore store cert ssl tls jdbc ora oracle mssql sql sa
    service svc client server bot sudo gpg wandb elastic es kafka minio s3 aws azure web site host remote test
    kube grafana
    """
)
"""Words before "pass" where it is a password."""

PAT_OWNERS = _words(
    """
    github gitlab gh gl git ado azure devops ext user my access bitbucket jira snowflake
    """
)
"""Words before "pat" where it is a personal access token."""

SUFFIXES = _words(
    """
    value val base64 b64 raw plain plaintext prod production dev staging stage backup env
    """
)
"""Words behind the last word of a key that change nothing: PASSWORD_PROD."""

TOKEN_SUFFIXES = _words(
    """
    prod production dev staging stage read write ro rw b64 backup env
    """
)
"""The same behind "token", where more words have a meaning of their own."""

COUNTS = _words(
    """
    num max min n total count len hash bcrypt scrypt argon pbkdf md sha ntlm crypt wpa
    """
)
"""Words before "password" where a number is a size: kernels of programs that try out passwords have such names."""

NO_VALUE = _words(
    """
    none null nil true false undefined unset empty masked redacted hidden removed required optional yes no
    """
)
"""Values that are no credential."""

PROSE = _words(
    """
    the a an is are was were be been not no and or to of for in on at as by it its this that with from wrong
    invalid incorrect required missing expired must cannot can failed fails error ok try please enter your you
    reset flag option flow given found set unset used needed has have will should may does do if when which per
    one word words piece pieces too expected got field file name prompt value values
    """
)
"""Words that follow a word such as "password" in a sentence."""
