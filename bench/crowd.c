/*
 * crowd: many clients that always ask. Each sends a read of pgbench's tables, waits for its answer, and sends the next one at
 * once. pgbench does the same, but with 19,000 clients it takes 57 ms from an answer to the next request; this takes as
 * long as it takes to answer what epoll reports in one call.
 *
 * One process, one thread, prepared statements, no passwords. It prints "ready" when all clients have logged in, and at its
 * end the transactions of each second. Linux only.
 *
 *   crowd PORT USER DATABASE CLIENTS SECONDS      on 127.0.0.1
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define EVENTS_MAX 256
#define BUFFER_BYTES 65536
#define HEADER_BYTES 5
#define LOGINS_AT_ONCE 64
#define STATEMENT "select abalance from pgbench_accounts where aid = $1"

/* What a client has got of the message that it reads. */
struct client {
    int fd;
    unsigned char header[HEADER_BYTES];
    unsigned header_bytes;
    uint32_t body_left;
    int asks; /* it has logged in and sent its statement */
};

static int epoll_fd;
static char buffer[BUFFER_BYTES];
static char request[256];
static size_t request_bytes;
static unsigned long transactions;
static volatile sig_atomic_t over;

static void die(const char *what)
{
    fprintf(stderr, "crowd: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void stop(int number)
{
    (void)number;
    over = 1;
}

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

/* Appends a message to `to`; the body may contain zeros. */
static size_t message(char *to, char tag, const char *body, size_t bytes)
{
    uint32_t length = htonl((uint32_t)bytes + 4);
    to[0] = tag;
    memcpy(to + 1, &length, 4);
    memcpy(to + HEADER_BYTES, body, bytes);
    return HEADER_BYTES + bytes;
}

/* Requests are short, so that a socket takes them whole. */
static void send_all(int fd, const char *bytes, size_t count)
{
    if (send(fd, bytes, count, MSG_NOSIGNAL) != (ssize_t)count)
        die("send");
}

static void connect_client(struct client *client, int port, const char *user, const char *database)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = client};
    char packet[256];
    uint32_t word;
    int on = 1, bytes;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (client->fd < 0)
        die("socket");
    setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(client->fd, (struct sockaddr *)&address, sizeof address) < 0)
        die("connect");
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, client->fd, &event) < 0)
        die("epoll_ctl");
    bytes = 8 + snprintf(packet + 8, sizeof packet - 8, "user%c%s%cdatabase%c%s%c", 0, user, 0, 0, database, 0) + 1;
    word = htonl((uint32_t)bytes);
    memcpy(packet, &word, 4);
    word = htonl(196608); /* protocol 3.0 */
    memcpy(packet + 4, &word, 4);
    send_all(client->fd, packet, (size_t)bytes);
}

/* The login is over. */
static void prepare(struct client *client)
{
    static const char parse[] = "s\0" STATEMENT "\0\0"; /* and the zero that C appends: no parameter types */
    char packet[256];
    size_t bytes = message(packet, 'P', parse, sizeof parse);

    bytes += message(packet + bytes, 'S', "", 0);
    send_all(client->fd, packet, bytes);
    client->asks = 1;
}

/* Walks over the messages that a client gets. Returns how many times it became ready. */
static int receive(struct client *client)
{
    ssize_t got = recv(client->fd, buffer, sizeof buffer, 0);
    char *at = buffer, *end = buffer + got;
    int readies = 0;

    if (got <= 0)
        die("the pooler has closed a connection");
    while (at < end) {
        if (client->header_bytes < HEADER_BYTES) {
            client->header[client->header_bytes++] = (unsigned char)*at++;
            if (client->header_bytes < HEADER_BYTES)
                continue;
            client->body_left = ((uint32_t)client->header[1] << 24 | client->header[2] << 16 | client->header[3] << 8 |
                                 client->header[4]) - 4;
            if (client->header[0] == 'E') {
                fprintf(stderr, "crowd: a client got an error\n");
                exit(1);
            }
        }
        size_t some = (size_t)(end - at) < client->body_left ? (size_t)(end - at) : client->body_left;
        at += some;
        client->body_left -= (uint32_t)some;
        if (client->body_left == 0) {
            readies += client->header[0] == 'Z';
            client->header_bytes = 0;
        }
    }
    return readies;
}

int main(int count, char **values)
{
    struct epoll_event events[EVENTS_MAX];
    struct client *clients;
    int port, wanted, connected = 0, prepared = 0, seconds;
    double began, ends;

    if (count != 6) {
        fprintf(stderr, "usage: crowd PORT USER DATABASE CLIENTS SECONDS\n");
        return 2;
    }
    port = atoi(values[1]);
    wanted = atoi(values[4]);
    seconds = atoi(values[5]);
    clients = calloc((size_t)wanted, sizeof *clients);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (clients == NULL || epoll_fd < 0)
        die("start");
    signal(SIGTERM, stop);

    static const char bind[] = "\0s\0\0\0\0\1\0\0\0\4" "1234" "\0"; /* and the zero that C appends: no result formats */
    static const char execute[] = "\0\0\0\0"; /* and one zero more: the unnamed portal, all rows */
    request_bytes = message(request, 'B', bind, sizeof bind);
    request_bytes += message(request + request_bytes, 'E', execute, sizeof execute);
    request_bytes += message(request + request_bytes, 'S', "", 0);

    /* Each client is ready twice: when it has logged in, and when its statement is prepared. Then it waits for the others. */
    while (prepared < wanted && !over) {
        while (connected < wanted && connected - prepared < LOGINS_AT_ONCE)
            connect_client(&clients[connected++], port, values[2], values[3]);
        int found = epoll_wait(epoll_fd, events, EVENTS_MAX, 1000);
        for (int i = 0; i < found; i++) {
            struct client *client = events[i].data.ptr;
            for (int left = receive(client); left > 0; left--) {
                if (client->asks)
                    prepared++;
                else
                    prepare(client);
            }
        }
    }
    printf("ready\n");
    fflush(stdout);

    began = now();
    ends = began + seconds;
    for (int i = 0; i < wanted && !over; i++)
        send_all(clients[i].fd, request, request_bytes);
    while (!over && now() < ends) {
        int found = epoll_wait(epoll_fd, events, EVENTS_MAX, 100);
        for (int i = 0; i < found; i++) {
            struct client *client = events[i].data.ptr;
            if (receive(client) > 0) {
                transactions++;
                send_all(client->fd, request, request_bytes);
            }
        }
    }
    printf("%.0f\n", transactions / (now() - began));
    return 0;
}
